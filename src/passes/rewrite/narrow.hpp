// Constants between float32 and the 16-bit types: what fits exactly, what saturates.
#pragma once

#include "base/tensor.hpp"
#include "ir/graph.hpp"

namespace peri::passes {

// float16 and bfloat16.
inline bool is_narrow(DType t) { return t == DType::kF16 || t == DType::kBF16; }

// Whether every element of a float32 tensor is a number of `type`, or an infinity. REQUIRES: is_narrow(type).
bool holds_exactly(const Tensor& t, DType type);
// Whether the node reads a float at `port` that may be stored in fewer bits where a build is asked for that: a weight,
// or what it only copies elements of.
bool may_round(const ir::Node& n, size_t port);
// Whether an op only copies elements, whatever they are: it does so in the type in which they are stored.
bool copies(const ir::Node& n);
// A float32 tensor in `type`: nearest even; finite elements beyond its largest number become that. Errors: kMemory.
Result<Tensor> saturated(const Tensor& t, DType type);
// A tensor of a narrow type in float32, exactly. Errors: kMemory.
Result<Tensor> in_float32(const Tensor& t);

}  // namespace peri::passes
