// Quantised values in a graph: recognition of QuantizeLinear and DequantizeLinear with constant parameters.
#pragma once

#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {

// A value of bytes with a constant scale and zero point.
struct Quantized {
  ir::Value* bytes = nullptr;
  ir::Value *scale = nullptr, *zero = nullptr;  // constants; a null zero means none
  int64_t axis = 1;
  const ir::Node* node = nullptr;
  bool one() const;  // a single scale for the whole tensor
};
// The input of the dequantize_linear that produces `v`, into float32, without blocks. None: `v` has another producer.
std::optional<Quantized> dequantized(const ir::Value* v);
// The result of a quantize_linear of float32 into bytes with a single scale. None: another node.
std::optional<Quantized> quantized(const ir::Node& node);

// Both have one scale, of the same value, and the same zero point and type.
bool same_quantization(const Quantized& a, const Quantized& b);
// The zero point, or a constant of zeros where there is none.
ir::Value* zero_of(Rewriter& w, const Quantized& q);
// Element k of a constant with one element for all or one for each.
double element(const ir::Value* v, int64_t k);

}  // namespace peri::passes
