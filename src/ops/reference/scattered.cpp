// Rows of b are read in memory order, a few at a time, by all elements: walking down single columns touches a new page
// at each step and waits for it.
#include "ops/reference/scattered.hpp"

#include <algorithm>
#include <tuple>

#include "ops/reference/parallel.hpp"

namespace peri::ops {
namespace {

constexpr int64_t kColumns = 8;  // of one unit: a cache line of doubles
constexpr int64_t kRows = 16;    // of b at a time: what a unit keeps in registers meanwhile

// Up to kColumns neighbouring elements of one row of the product, with what has been summed so far.
struct Unit {
  ScatteredSum first;
  int64_t count = 1;
  double sum[kColumns] = {}, magnitude[kColumns] = {};
};

std::vector<Unit> make_units(std::vector<ScatteredSum> elements) {
  std::sort(elements.begin(), elements.end(), [](const ScatteredSum& l, const ScatteredSum& r) {
    return std::tie(l.a, l.b, l.to) < std::tie(r.a, r.b, r.to);
  });
  std::vector<Unit> units;
  for (const ScatteredSum& e : elements) {
    if (!units.empty()) {
      Unit& u = units.back();
      if (u.count < kColumns && e.a == u.first.a && e.b == u.first.b + u.count && e.to == u.first.to + u.count) {
        ++u.count;
        continue;
      }
    }
    units.push_back({e});
  }
  std::sort(
      units.begin(), units.end(),  // neighbours in b follow each other
      [](const Unit& l, const Unit& r) { return std::tie(l.first.b, l.first.a) < std::tie(r.first.b, r.first.a); });
  return units;
}

template <int64_t kCount>
void add_rows(Unit& u, int64_t from, int64_t to, const double* a, int64_t a_step, const double* b, int64_t b_step) {
  double sum[kCount], magnitude[kCount];
  for (int64_t j = 0; j < kCount; ++j) {
    sum[j] = u.sum[j];
    magnitude[j] = u.magnitude[j];
  }
  for (int64_t p = from; p < to; ++p) {
    const double x = a[u.first.a + p * a_step];
    const double* row = b + u.first.b + p * b_step;
    for (int64_t j = 0; j < kCount; ++j) {
      const double v = x * row[j];
      sum[j] += v;
      magnitude[j] += v < 0 ? -v : v;
    }
  }
  for (int64_t j = 0; j < kCount; ++j) {
    u.sum[j] = sum[j];
    u.magnitude[j] = magnitude[j];
  }
}

// A row and a column whose elements both follow each other: partial sums, so that additions do not wait for each other.
void add_contiguous(Unit& u, int64_t k, const double* a, const double* b) {
  double sum[kColumns] = {}, magnitude[kColumns] = {};
  a += u.first.a;
  b += u.first.b;
  for (int64_t p = 0; p < k / kColumns * kColumns; p += kColumns)
    for (int64_t j = 0; j < kColumns; ++j) {
      const double v = a[p + j] * b[p + j];
      sum[j] += v;
      magnitude[j] += v < 0 ? -v : v;
    }
  for (int64_t p = k / kColumns * kColumns; p < k; ++p) {
    const double v = a[p] * b[p];
    sum[0] += v;
    magnitude[0] += v < 0 ? -v : v;
  }
  for (int64_t j = 0; j < kColumns; ++j) {
    u.sum[0] += sum[j];
    u.magnitude[0] += magnitude[j];
  }
}
}  // namespace

void scattered_sums(std::vector<ScatteredSum> elements, int64_t k, const double* a, int64_t a_step, const double* b,
                    int64_t b_step, int threads, const std::function<void(int64_t, double, double)>& take) {
  std::vector<Unit> units = make_units(std::move(elements));
  parallel_for(threads, static_cast<int64_t>(units.size()), [&](int64_t begin, int64_t end) {
    const auto mine = [&](auto&& f) {
      for (int64_t n = begin; n < end; ++n) f(units[static_cast<size_t>(n)]);
    };
    for (int64_t from = 0; from < k; from += kRows)
      mine([&](Unit& u) {
        const int64_t to = std::min(k, from + kRows);
        if (u.count == kColumns) return add_rows<kColumns>(u, from, to, a, a_step, b, b_step);
        if (u.count == 1 && a_step == 1 && b_step == 1) return from == 0 ? add_contiguous(u, k, a, b) : void();
        for (int64_t j = 0; j < u.count; ++j) {
          Unit one{{u.first.a, u.first.b + j, 0}, 1, {u.sum[j]}, {u.magnitude[j]}};
          add_rows<1>(one, from, to, a, a_step, b, b_step);
          u.sum[j] = one.sum[0];
          u.magnitude[j] = one.magnitude[0];
        }
      });
    mine([&](const Unit& u) {
      for (int64_t j = 0; j < u.count; ++j) take(u.first.to + j, u.sum[j], u.magnitude[j]);
    });
  });
}

}  // namespace peri::ops
