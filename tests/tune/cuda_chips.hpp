// Texts of kernels compiled for each class of chips: without a warning, and without memory of a thread's own, which
// registers should hold.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/tune/cuda_cases.hpp"

namespace peri::device::cuda {
class Compiler;
}

namespace peri::tune {

// The list of kernels that may take some is empty: none does, on any chip.
struct OwnMemory {
  int stack = 0, spilled = 0;  // bytes; of all kernels of a text the most
};
// From lines as ptxas writes them: "8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads".
OwnMemory own_memory(const std::string& log);

// Of a kernel with a configuration, for a chip; `first`: its first configuration.
using Wanted = std::function<bool(const std::string& name, std::string_view chip, bool first)>;
// The longest text of each kernel and configuration, for the chips that are wanted and that the compiler knows.
void compile_texts(const device::cuda::Compiler& compiler, const std::vector<Case>& cases, const Wanted& wanted);

}  // namespace peri::tune
