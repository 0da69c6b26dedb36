// Texts of kernels compiled for each class of chips: without a warning, and without local memory, whose contents should
// be in registers.
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

// No kernel may use local memory for its samples, on any chip: here there are no exceptions. Of the larger texts that
// builds of whole networks compile a few may, by name and bytes: STATED in tools/suites/cuda_texts.py.
struct OwnMemory {
  int stack = 0, spilled = 0;  // bytes; the largest of all kernels of a text
};
// Parsed from ptxas's lines: "8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads".
OwnMemory own_memory(const std::string& log);

// For a kernel with a configuration and a chip; `first`: its first configuration.
using Wanted = std::function<bool(const std::string& name, std::string_view chip, bool first)>;
// The longest text of each kernel and configuration, for the selected chips that the compiler supports.
void compile_texts(const device::cuda::Compiler& compiler, const std::vector<Case>& cases, const Wanted& wanted);

}  // namespace peri::tune
