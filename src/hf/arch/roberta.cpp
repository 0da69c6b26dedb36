// RoBERTa: BERT without token types as input, positions counted after the padding id.
#include "hf/bert_family.hpp"
#include "hf/entry.hpp"

namespace peri::hf {
namespace {
Result<ir::Graph> build(const Folder& folder, const Weights& weights, std::vector<std::string>* notes) {
  return build_bert({"roberta", "roberta.", false, true, 1}, folder, weights, notes);
}
}  // namespace

extern const Entry roberta_entry;
const Entry roberta_entry{.model_type = "roberta", .build = build};

}  // namespace peri::hf
