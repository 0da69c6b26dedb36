// What ops with bodies share in the reference: options, costs and errors.
#pragma once

#include <cmath>

#include "ops/entry.hpp"

namespace peri::ops {

// Options for running a body as part of the evaluation that `call` belongs to.
inline RefOptions options_of_body(const RefCall& call) {
  RefOptions o = call.options ? *call.options : RefOptions{call.u, call.threads};
  o.positions.clear();
  return o;
}

// Sets the radii of exact results to zero.
inline Status fill_radii(RefCall& call) {
  for (RefTensor& t : call.out)
    if (t.radius.size() != t.f.size()) t.radius.assign(t.f.size(), 0.0);
  return Ok{};
}

inline Cost cost_of_body(const ir::Graph& body) {
  Cost sum;
  for (const ir::Node* n : body.nodes) {
    bool known = true;
    for (const auto* list : {&n->inputs, &n->outputs})
      for (const ir::Value* v : *list) known = known && (!v || v->type.known());
    if (!known) return {HUGE_VAL, 0, 0};
    const Cost c = cost_of(*n);
    sum.flops += c.flops + 1;
    sum.bytes_read += c.bytes_read;
    sum.bytes_written += c.bytes_written;
  }
  return sum;
}

// The error of a loop that reaches the iteration limit.
inline Error endless_loop(int64_t limit) {
  return invalid("a loop did not end within its limit of iterations")
      .expecting(format("at most %lld", static_cast<long long>(limit)))
      .advise("raise it with --max-iterations, or check the condition that ends the loop");
}

}  // namespace peri::ops
