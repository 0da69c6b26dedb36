// BERT and the models that differ from it only in how positions are counted and whether token types are an input.
#pragma once

#include <string>
#include <vector>

#include "hf/folder.hpp"
#include "hf/safetensors.hpp"
#include "ir/graph.hpp"

namespace peri::hf {

struct BertVariant {
  const char* name;          // of the graph
  const char* prefix;        // of weight names in models with a task head: "bert."
  bool type_input;           // token_type_ids is an input; otherwise every token has type 0
  bool positions_after_pad;  // positions start at pad_token_id + 1; padding has position pad_token_id
  int64_t pad;               // pad_token_id where config.json has none: the default of the model's config class
};

// See Entry::build.
Result<ir::Graph> build_bert(const BertVariant& variant, const Folder& folder, const Weights& weights,
                             std::vector<std::string>* notes);

}  // namespace peri::hf
