// Reading of quantised values in a graph: what QuantizeLinear and DequantizeLinear do, where it is constant.
#pragma once

#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {

// A value of bytes with a constant scale and zero point.
struct Quantized {
  ir::Value* bytes = nullptr;
  ir::Value *scale = nullptr, *zero = nullptr;  // constants; a null zero is none
  int64_t axis = 1;
  const ir::Node* node = nullptr;
  bool one() const;  // one scale for all of it
};
// What the dequantize_linear behind `v` reads, into float32, without blocks. None: something else makes `v`.
std::optional<Quantized> dequantized(const ir::Value* v);
// What a quantize_linear of float32 into bytes makes, by one scale. None: the node does something else.
std::optional<Quantized> quantized(const ir::Node& node);

// Both have one scale, of the same value, and the same zero point and type.
bool same_quantization(const Quantized& a, const Quantized& b);
// The zero point, or one of zeros where there is none.
ir::Value* zero_of(Rewriter& w, const Quantized& q);
// Element k of a constant with one element for all or one for each.
double element(const ir::Value* v, int64_t k);

}  // namespace peri::passes
