// LSTM cells over sequences.
#include <algorithm>
#include <limits>

#include "ops/reference/cell.hpp"
#include "ops/reference/elements.hpp"

namespace peri::ops {

double rounding_radius(double largest, double rounding) {
  // A quotient near the midpoint of two integers may be rounded to either. Numbers smaller than any in a network may be
  // treated as zero.
  constexpr double kNothing = 1e-30;
  return largest * rounding * 1.01 + kNothing;
}

namespace {
// The state of a sequence as it is multiplied.
const Near* as_multiplied(const Near* h, int64_t n, double rounding, double u, std::vector<Near>& to) {
  if (rounding == 0) return h;
  to.assign(h, h + n);
  double largest = 0;
  bool finite = true;
  for (const Near& x : to) {
    finite = finite && std::isfinite(x.v);
    largest = std::max(largest, std::fabs(x.v) + x.r);
  }
  for (Near& x : to) {
    if (!finite) x = {std::numeric_limits<double>::quiet_NaN(), 0};
    if (finite && u > 0) x.r += rounding_radius(largest, rounding);
  }
  return to.data();
}
}  // namespace

// Gates i, o, f, c. C = f C + i g(c); h = o h(C). P lets i and f see the old C, o the new one.
Status walk_lstm(RefCall& call, const CellNode& cell, double rounding) {
  PERI_TRY(check_lengths(call, cell));
  CellRun run(call, cell);
  const bool coupled = call.node.i("input_forget") != 0;
  const RefTensor* peephole = call.in.size() > 7 ? call.in[7] : nullptr;
  const int64_t n = cell.hidden;
  const double u = call.u;
  std::vector<Near> products, multiplied;
  for (int64_t d = 0; d < cell.directions; ++d) {
    std::vector<Near> memory;
    const auto seen = [&](int64_t gate, int64_t j, Near of) {
      return times(element(peephole, (d * 3 + gate) * n + j, 0), of);
    };
    run.walk(d, [&](int64_t b) {
      if (memory.empty()) memory = run.initial(6);
      Near *h = run.state(b), *c = memory.data() + b * n;
      run.from_state(as_multiplied(h, n, rounding, u, multiplied), 0, 4, products);
      const auto sum = [&](int64_t g, int64_t j) {
        return plus(run.from_input(b, g, j), products[static_cast<size_t>(g * n + j)], u);
      };
      for (int64_t j = 0; j < n; ++j) {
        const auto &f = run.function(0), &g = run.function(1), &out = run.function(2);
        const Near i = f(cell.clipped(plus(sum(0, j), seen(0, j, c[j]), u)), u);
        const Near forget = coupled ? minus_from_one(i, u) : f(cell.clipped(plus(sum(2, j), seen(2, j, c[j]), u)), u);
        Near kept = times(forget, c[j]), fresh = times(i, g(cell.clipped(sum(3, j)), u));
        fresh.r += u * (std::fabs(fresh.v) + std::fabs(kept.v));
        c[j] = plus(kept, fresh, u);
        h[j] = times(f(cell.clipped(plus(sum(1, j), seen(1, j, c[j]), u)), u), out(c[j], u));
        h[j].r += u * std::fabs(h[j].v);
      }
    });
    if (memory.empty()) memory = run.initial(6);
    run.store_last(2, memory);
  }
  return Ok{};
}

}  // namespace peri::ops
