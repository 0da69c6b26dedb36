// Texts instead of tensors: a text model's inputs from words, and how alike its answers are.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/tensor.hpp"
#include "plan/program.hpp"

namespace peri::build {

// Tensors for the program's inputs, in their order, by the tokenizer that travels with it. kUsage if it has none.
Result<std::vector<Tensor>> text_inputs(const plan::Program& program, std::span<const std::string> texts);

// Cosines between the rows of the output that answers a text: rows * rows values. Empty if that output is not f32[n,m].
std::vector<double> text_similarity(const plan::Program& program, std::span<const Tensor> outputs);

}  // namespace peri::build
