// Seeded inputs by an engine's ports alone, where no graph says what reads them.
#pragma once

#include "base/tensor.hpp"
#include "plan/program.hpp"

namespace peri::judge {

// Floats normal; integers below 100, below 2 where the name says they are segment ids; ones where it says "mask".
Result<Tensor> random_input(const plan::Port& port, const DimBinding& dims, uint64_t seed);
// One for each of the program's inputs, of this seed and those after it.
Result<std::vector<Tensor>> random_inputs(const plan::Program& program, const DimBinding& dims, uint64_t seed);

}  // namespace peri::judge
