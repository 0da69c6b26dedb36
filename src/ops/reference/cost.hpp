// Compulsory traffic of a node: each input read once, each output written once.
#pragma once

#include <algorithm>

#include "ops/entry.hpp"

namespace peri::ops {

inline double elements_of(const ir::Value& v) {
  double n = 1;
  for (const Dim& d : *v.type.shape) n *= static_cast<double>(d.is_const() ? d.value() : 1);
  return n;
}
inline double bytes_of(const ir::Value& v) { return elements_of(v) * dtype_bits(v.type.dtype) / 8.0; }

// REQUIRES known types; symbolic dimensions count as 1.
inline Cost traffic_of(const ir::Node& node) {
  Cost c;
  for (const ir::Value* v : node.inputs)
    if (v) c.bytes_read += bytes_of(*v);
  for (const ir::Value* v : node.outputs) c.bytes_written += bytes_of(*v);
  return c;
}

// Traffic with `flops_per_element` operations for each element of output 0 (or of input 0, where that is larger).
inline Cost cost_per_element(const ir::Node& node, double flops_per_element) {
  Cost c = traffic_of(node);
  c.flops = flops_per_element * std::max(elements_of(*node.out()), elements_of(*node.in(0)));
  return c;
}

}  // namespace peri::ops
