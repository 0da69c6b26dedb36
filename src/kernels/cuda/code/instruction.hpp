// Source text of one instruction of block code.
#pragma once

#include <string>

#include "base/result.hpp"
#include "kernels/block/code.hpp"

namespace peri::kernels::cuda {

// "float", "int", "peri_i64", "bool".
std::string type_text(block::Type type);
// What an instruction computes, of registers of its operands' type `from`. Refuses one that has no text.
Result<std::string> expression_text(const block::Instruction& instruction, block::Type from);
// The value of one that is a constant.
std::string constant_text(const block::Instruction& instruction);

}  // namespace peri::kernels::cuda
