// Whether an engine was made from a given ONNX file.
#pragma once

#include <string>

#include "plan/program.hpp"

namespace peri::judge {

// Imports `model` (an ONNX file) as the build of `program` did, with the same fixed inputs, sizes and types of inputs
// and outputs, and compares the identities (plan/identity.hpp). kUsage: the engine was made from another model; kIo
// and kInvalid: the import's. Nothing is refused where nothing is known: of an engine by another version of peri, or
// made from a Hugging Face folder.
Status check_made_of(const plan::Program& program, const std::string& model);

}  // namespace peri::judge
