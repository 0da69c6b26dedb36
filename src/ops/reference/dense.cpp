// Blocked, packed product of doubles: register tiles chosen by instruction set, so that whole models can be verified in
// float64.
#include "ops/reference/dense.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "device/target.hpp"
#include "ops/reference/dense_tile.hpp"

namespace peri::ops {
namespace {

// What is multiplied: the value, scale * |value| + radius, or the radius alone.
enum class Part { kValue, kMagnitude, kRadius };
struct Operand {
  Side side;
  Part part = Part::kValue;
  double scale = 1;
  double at(int64_t offset) const {
    if (part == Part::kValue) return side.value[offset];
    const double r = side.radius ? side.radius[offset] : 0;
    return part == Part::kRadius ? r : scale * std::fabs(side.value[offset]) + r;
  }
};

constexpr int64_t kDepth = 256;    // of a packed block
constexpr int64_t kRows = 96;      // of a packed block of a: 96 * 256 doubles stay in L2
constexpr int64_t kColumns = 960;  // of a packed block of b

// Panels of `width` rows (or columns), each `depth` deep with its `width` elements side by side, padded with zeros.
void pack(const Operand& x, int64_t across, int64_t depth, int64_t across_step, int64_t depth_step, int64_t width,
          double* to) {
  for (int64_t first = 0; first < across; first += width) {
    const int64_t count = std::min(width, across - first);
    for (int64_t p = 0; p < depth; ++p) {
      const int64_t base = first * across_step + p * depth_step;
      if (x.part == Part::kValue) {
        for (int64_t j = 0; j < count; ++j) to[j] = x.side.value[base + j * across_step];
      } else {
        for (int64_t j = 0; j < count; ++j) to[j] = x.at(base + j * across_step);
      }
      for (int64_t j = count; j < width; ++j) to[j] = 0;
      to += width;
    }
  }
}

using Block = void (*)(int64_t, int64_t, int64_t, const double*, const double*, double*, int64_t);
void block_base(int64_t m, int64_t n, int64_t depth, const double* a, const double* b, double* c, int64_t c_step) {
  block<2, 4, 2>(m, n, depth, a, b, c, c_step);
}
struct Choice {
  Block run;
  int64_t rows, columns;
};
Choice choose() {
  const device::Target& cpu = device::this_cpu();
  if (cpu.has("avx512")) return {dense_block_avx512, 8, 24};
  if (cpu.has("avx2")) return {dense_block_avx2, 4, 12};
  return {block_base, 4, 4};
}

int64_t padded(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

void add_product(int64_t m, int64_t n, int64_t k, const Operand& a, const Operand& b, double* c, int64_t c_step) {
  static const Choice kChoice = choose();
  const int64_t deepest = std::min(k, kDepth);
  std::vector<double> packed_a(static_cast<size_t>(padded(std::min(m, kRows), kChoice.rows) * deepest));
  std::vector<double> packed_b(static_cast<size_t>(padded(std::min(n, kColumns), kChoice.columns) * deepest));
  for (int64_t p = 0; p < k; p += kDepth) {
    const int64_t depth = std::min(kDepth, k - p);
    for (int64_t j = 0; j < n; j += kColumns) {
      const int64_t columns = std::min(kColumns, n - j);
      pack({b.side.at(p, j), b.part, b.scale}, columns, depth, b.side.column_step, b.side.row_step, kChoice.columns,
           packed_b.data());
      for (int64_t i = 0; i < m; i += kRows) {
        const int64_t rows = std::min(kRows, m - i);
        pack({a.side.at(i, p), a.part, a.scale}, rows, depth, a.side.row_step, a.side.column_step, kChoice.rows,
             packed_a.data());
        kChoice.run(rows, columns, depth, packed_a.data(), packed_b.data(), c + i * c_step + j, c_step);
      }
    }
  }
}

}  // namespace

void dense_product(int64_t m, int64_t n, int64_t k, const Side& a, const Side& b, double u, int64_t terms, double* c,
                   double* c_radius, int64_t c_step) {
  if (m == 0 || n == 0 || k == 0) return;
  // The sums so far come off |sum|: steady_radius() is of the products alone.
  const auto each = [&](auto&& f) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) f(c[i * c_step + j], c_radius[i * c_step + j], static_cast<size_t>(i * n + j));
  };
  std::vector<double> before(u == 0 ? 0 : static_cast<size_t>(m * n));
  if (u != 0) each([&](double sum, double&, size_t at) { before[at] = sum; });
  add_product(m, n, k, {a}, {b}, c, c_step);
  if (u == 0) return;
  each([&](double sum, double& radius, size_t at) { radius += steady_radius(u, terms, sum - before[at]); });
  const double grain = sum_radius(u, terms, 1);
  if (!b.radius || a.radius) {
    add_product(m, n, k, {a, Part::kMagnitude, grain},
                {{b.value, nullptr, b.row_step, b.column_step}, Part::kMagnitude, 1}, c_radius, c_step);
    if (b.radius) add_product(m, n, k, {a, Part::kMagnitude, 1}, {b, Part::kRadius, 1}, c_radius, c_step);
  } else {
    add_product(m, n, k, {a, Part::kMagnitude, 1}, {b, Part::kMagnitude, grain}, c_radius, c_step);
  }
}

void settle_radii(RefTensor& t, std::span<const int64_t> positions) {
  if (t.radius.empty()) return;
  const size_t count = positions.empty() ? t.f.size() : positions.size();
  for (size_t n = 0; n < count; ++n) {
    const size_t at = positions.empty() ? n : static_cast<size_t>(positions[n]);
    if (!std::isfinite(t.f[at])) t.radius[at] = 0;
  }
}

}  // namespace peri::ops
