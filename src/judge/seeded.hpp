// Seeded inputs of an engine, from its ports and from what its steps index with them.
#pragma once

#include "base/tensor.hpp"
#include "plan/program.hpp"

namespace peri::judge {

// Floats normal; texts as random_text() makes them, or whole numbers below `rows` if given; integers below 100, below 2
// for names of segment ids, and below `rows` if given; ones for names of masks.
Result<Tensor> random_input(const plan::Port& port, const DimBinding& dims, uint64_t seed,
                            std::optional<int64_t> rows = std::nullopt);
// Input `index` of the program: `rows` of the smallest table that a step indexes with it, the size that another input
// has where it tells it, 0 and 1 where places of a cache are computed from it, and categories where an encoder compares
// its elements. Errors: kMemory where a large one is asked for and a run at these sizes takes more
// memory than is free.
Result<Tensor> random_input(const plan::Program& program, size_t index, const DimBinding& dims, uint64_t seed);
// One for each of the program's inputs, with consecutive seeds starting at this one.
Result<std::vector<Tensor>> random_inputs(const plan::Program& program, const DimBinding& dims, uint64_t seed);
// Whether elements of this type may decide places and sizes: an integer or a boolean.
bool counts(DType t);
// Makes all such elements of these inputs this value, as they are where others cannot be run.
void set_integers(int64_t value, std::vector<Tensor>* inputs);

}  // namespace peri::judge
