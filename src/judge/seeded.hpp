// Seeded inputs of an engine, by its ports and by what its steps index with them.
#pragma once

#include "base/tensor.hpp"
#include "plan/program.hpp"

namespace peri::judge {

// Floats normal; integers below 100, below 2 where the name says they are segment ids, and below `rows` if there are
// some; ones where it says "mask".
Result<Tensor> random_input(const plan::Port& port, const DimBinding& dims, uint64_t seed,
                            std::optional<int64_t> rows = std::nullopt);
// Input `index` of the program: `rows` of the smallest table that a step indexes with it.
Result<Tensor> random_input(const plan::Program& program, size_t index, const DimBinding& dims, uint64_t seed);
// One for each of the program's inputs, of this seed and those after it.
Result<std::vector<Tensor>> random_inputs(const plan::Program& program, const DimBinding& dims, uint64_t seed);

}  // namespace peri::judge
