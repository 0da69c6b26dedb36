// References of element-wise float ops of one input: a function, and a bound on its own rounding in units of u.
#pragma once

#include <algorithm>
#include <cmath>

#include "ops/entry.hpp"

namespace peri::ops {

// y = f(x) at the requested positions. radius = max |f(x +- r) - f(x)| + c * u * |f(x)| (c: allowed error of a correct
// implementation in units of round-off). Infinite or NaN results carry no radius: they must match exactly.
template <class F>
Status unary_reference(RefCall& call, double c, F f) {
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  for (int64_t n = 0; n < call.count(); ++n) {
    const size_t at = static_cast<size_t>(call.position(n));
    const double v = f(x.f[at]);
    y.f[at] = v;
    if (call.u == 0 || !std::isfinite(v)) continue;
    double spread = 0;
    if (const double r = x.r(static_cast<int64_t>(at)); r > 0)
      spread = std::max(std::fabs(f(x.f[at] + r) - v), std::fabs(f(x.f[at] - r) - v));
    y.radius[at] = (std::isfinite(spread) ? spread : std::fabs(v)) + c * call.u * std::fabs(v);
  }
  return Ok{};
}

// Output type and shape of the first input.
Status infer_same(InferContext& c);
// Broadcast of all inputs, dtype of the first.
Status infer_broadcast(InferContext& c);
// Broadcast of all inputs, bool.
Status infer_broadcast_bool(InferContext& c);
// For element-wise ops: positions pull back through broadcasting.
bool pull_broadcast(const ir::Node& node, size_t port, std::span<const int64_t> positions,
                    std::vector<int64_t>* needed);

}  // namespace peri::ops
