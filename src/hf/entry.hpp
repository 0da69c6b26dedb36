// The interface of an architecture: the model_type it builds, and how. The folder src/hf/arch is the list.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hf/folder.hpp"
#include "hf/safetensors.hpp"
#include "ir/graph.hpp"

namespace peri::hf {

struct Entry {
  std::string_view model_type;  // as config.json names it
  // The model's graph with symbolic dimensions "batch" and "sequence", types not yet inferred. Inputs, each
  // i64[batch,sequence]: input_ids, attention_mask and, if the model knows them, token_type_ids. Outputs: "embedding"
  // f32[batch,hidden] if the folder says how to pool, and "last_hidden_state" f32[batch,sequence,hidden]. `notes` gets
  // what a user should know. Every size of the config is checked against the weights' shapes.
  Result<ir::Graph> (*build)(const Folder& folder, const Weights& weights, std::vector<std::string>* notes) = nullptr;
};

// All entries of the folder (made by the build), and look-up.
std::span<const Entry* const> entries();
const Entry* find(std::string_view model_type);

}  // namespace peri::hf
