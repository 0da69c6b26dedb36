// XLM-RoBERTa: RoBERTa with another vocabulary.
#include "hf/bert_family.hpp"
#include "hf/entry.hpp"

namespace peri::hf {
namespace {
constexpr int64_t kPad = 1;

Result<ir::Graph> build(const Folder& folder, const Weights& weights, std::vector<std::string>* notes) {
  return build_bert({"xlm-roberta", "roberta.", false, true, kPad}, folder, weights, notes);
}
}  // namespace

extern const Entry xlm_roberta_entry;
const Entry xlm_roberta_entry{.model_type = "xlm-roberta", .build = build, .positions_behind = kPad};

}  // namespace peri::hf
