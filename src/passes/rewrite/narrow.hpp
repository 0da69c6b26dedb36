// Conversion of constants between float32 and the 16-bit types: exact or saturating.
#pragma once

#include "base/tensor.hpp"
#include "ir/graph.hpp"

namespace peri::passes {

// Constants of up to so many elements are stored as they are computed with: nothing is gained by less.
constexpr int64_t kMaxUnrounded = 64;

// float16 and bfloat16.
inline bool is_narrow(DType t) { return t == DType::kF16 || t == DType::kBF16; }

// Whether every element of a float32 tensor is representable in `type`, or infinite. REQUIRES: is_narrow(type).
bool holds_exactly(const Tensor& t, DType type);
// Whether the float that the node reads at `port` may be stored in fewer bits if a build asks for it: a weight, or an
// input whose elements it only copies.
bool may_round(const ir::Node& n, size_t port);
// Whether an op only copies elements: it can do so in the type in which they are stored.
bool copies(const ir::Node& n);
// A float32 tensor converted to `type`: nearest even; finite elements beyond its largest number become that. Errors:
// kMemory.
Result<Tensor> saturated(const Tensor& t, DType type);
// A tensor of a narrow type converted to float32, exactly. Errors: kMemory.
Result<Tensor> in_float32(const Tensor& t);

}  // namespace peri::passes
