// How far answers move where each input moves by one rounding: no float32 program is sure to be nearer.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/tensor.hpp"
#include "ir/graph.hpp"

namespace peri::judge {

// Each finite element of the f32 inputs moved to one of its two neighbours; the seed says to which.
Result<std::vector<Tensor>> nudged(std::span<const Tensor> inputs, uint64_t seed);

// The largest share of its range by which output k moves from `answer` in a few such runs; 0 where no input is f32.
using Answers = std::function<Result<std::vector<Tensor>>(std::span<const Tensor> inputs)>;
Result<double> moves_of_range(const Answers& answers, std::span<const Tensor> inputs, const Tensor& answer, size_t k);

// The same of the reference with every value rounded to f32, its weights moved too: by one rounding of all that a
// float32 program has. Errors: those of the reference.
Result<double> model_moves(const ir::Graph& graph, std::span<const Tensor> inputs, const Tensor& answer, size_t k,
                           int threads);

}  // namespace peri::judge
