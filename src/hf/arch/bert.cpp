// BERT: word, position and type embeddings, normalised, through the encoder.
#include "hf/bert_family.hpp"
#include "hf/entry.hpp"

namespace peri::hf {
namespace {
Result<ir::Graph> build(const Folder& folder, const Weights& weights, std::vector<std::string>* notes) {
  return build_bert({"bert", "bert.", true, false, 0}, folder, weights, notes);
}
}  // namespace

extern const Entry bert_entry;
const Entry bert_entry{.model_type = "bert", .build = build};

}  // namespace peri::hf
