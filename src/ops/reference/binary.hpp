// Element-wise ops of two or more broadcast inputs: iteration over the inputs in the reference.
#pragma once

#include "ops/reference/elements.hpp"
#include "ops/reference/unary.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {

struct Term {
  double value = 0, radius = 0;
};

// y = f(a, b) with f: (Term, Term) -> Term giving the value and the radius due to the inputs alone; the op's own
// rounding of `own` units of round-off is added. A radius that is not finite accepts any number.
template <class F>
Status float_binary(RefCall& call, double own, F f) {
  const RefTensor &a = *call.in[0], &b = *call.in[1];
  RefTensor& y = call.out[0];
  const Under under_a(a.dims, y.dims), under_b(b.dims, y.dims);
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n), pa = under_a(p), pb = under_b(p);
    const Term t = f(Term{a.f[static_cast<size_t>(pa)], a.r(pa)}, Term{b.f[static_cast<size_t>(pb)], b.r(pb)});
    y.f[static_cast<size_t>(p)] = t.value;
    if (call.u != 0 && std::isfinite(t.value))
      y.radius[static_cast<size_t>(p)] = (std::isnan(t.radius) ? INFINITY : t.radius) + rounding(call, own, t.value);
  }
  return Ok{};
}

// y = wrap(f(a, b)) on integers and bool, exact.
template <class F>
Status int_binary(RefCall& call, F f) {
  const RefTensor &a = *call.in[0], &b = *call.in[1];
  RefTensor& y = call.out[0];
  const Under under_a(a.dims, y.dims), under_b(b.dims, y.dims);
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n);
    y.i[static_cast<size_t>(p)] =
        wrap(y.dtype, f(a.i[static_cast<size_t>(under_a(p))], b.i[static_cast<size_t>(under_b(p))]));
  }
  return Ok{};
}

// Two's complement arithmetic without undefined behaviour.
inline int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t wrap_sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t wrap_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// Infers an element-wise op of two inputs and its content by `f`: (const Dim&, const Dim&) -> optional<Dim>.
template <class F>
Status infer_binary_content(InferContext& c, F f) {
  PERI_TRY(infer_broadcast(c));
  if (is_integer(c.dtype(0)))
    content_elementwise(c, [&](const std::vector<Dim>& v) -> std::optional<Dim> { return f(v[0], v[1]); });
  return Ok{};
}

}  // namespace peri::ops
