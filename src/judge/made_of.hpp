// Whether an engine was made from a given ONNX file.
#pragma once

#include <optional>
#include <string>

#include "ir/graph.hpp"
#include "plan/program.hpp"

namespace peri::judge {

// `model` (an ONNX file), imported as the build of `program` did, with the same fixed inputs, sizes and types of inputs
// and outputs; their identities (plan/identity.hpp) are one. kUsage: the engine was made from another model; kIo
// and kInvalid: the import's. None where nothing is known: of an engine by another version of peri, or made from a
// Hugging Face folder.
Result<std::optional<ir::Graph>> model_made_of(const plan::Program& program, const std::string& model);

}  // namespace peri::judge
