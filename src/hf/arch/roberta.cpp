// RoBERTa: BERT without token types as input, positions counted after the padding id.
#include "hf/bert_family.hpp"
#include "hf/entry.hpp"

namespace peri::hf {
namespace {
constexpr int64_t kPad = 1;

Result<ir::Graph> build(const Folder& folder, const Weights& weights, std::vector<std::string>* notes) {
  return build_bert({"roberta", "roberta.", false, true, kPad}, folder, weights, notes);
}
}  // namespace

extern const Entry roberta_entry;
const Entry roberta_entry{.model_type = "roberta", .build = build, .positions_behind = kPad};

}  // namespace peri::hf
