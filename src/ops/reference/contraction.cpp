// Pairs of operands, one after another; each sum by one thread.
#include "ops/reference/contraction.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "ops/reference/parallel.hpp"
#include "ops/shape/broadcast.hpp"

namespace peri::ops {

namespace {
using Extents = std::map<int, int64_t>;
constexpr int64_t kMaxTerms = int64_t{1} << 30;  // counted: a bound by their root says nothing any more

bool has(const std::vector<int>& names, int name) { return std::find(names.begin(), names.end(), name) != names.end(); }

// One to two operands and the axes of their product: those of the result, then those that are summed.
struct Walk {
  std::vector<int64_t> out, summed;
  std::vector<std::vector<int64_t>> out_steps, summed_steps;  // [operand][axis]

  template <class T>
  Walk(std::span<const NamedArray<T>> parts, const std::vector<int>& output, const Extents& extents) {
    std::vector<int> rest;
    for (const NamedArray<T>& p : parts)
      for (const int name : p.names)
        if (!has(output, name) && !has(rest, name)) rest.push_back(name);
    const auto extent = [&](int name) {
      const auto known = extents.find(name);
      return known == extents.end() ? int64_t{1} : known->second;
    };
    for (const int name : output) out.push_back(extent(name));
    for (const int name : rest) summed.push_back(extent(name));
    for (const NamedArray<T>& p : parts) {
      const std::vector<int64_t> steps = strides_of(p.dims);
      const auto along = [&](int name) {
        int64_t step = 0;
        for (size_t d = 0; d < p.dims.size(); ++d)
          if (p.names[d] == name && p.dims[d] != 1) step += steps[d];
        return step;
      };
      out_steps.emplace_back();
      summed_steps.emplace_back();
      for (const int name : output) out_steps.back().push_back(along(name));
      for (const int name : rest) summed_steps.back().push_back(along(name));
    }
  }

  // The sum of the products of elements that begin at `a` and `b` of two arrays; `b` null: of one.
  template <class T>
  T sum(const T* a, const T* b, size_t axis = 0) const {
    T out = 0;
    if (axis == summed.size()) return *a * (b ? *b : 1);
    const int64_t step_a = summed_steps[0][axis], step_b = b ? summed_steps[1][axis] : 0;
    if (axis + 1 == summed.size() && b) {
      for (int64_t k = 0; k < summed[axis]; ++k) out += a[k * step_a] * b[k * step_b];
    } else {
      for (int64_t k = 0; k < summed[axis]; ++k) out += sum<T>(a + k * step_a, b ? b + k * step_b : nullptr, axis + 1);
    }
    return out;
  }
};

template <class T>
NamedArray<T> product(std::span<const NamedArray<T>> parts, const std::vector<int>& output, const Extents& extents,
                      std::span<const int64_t> positions, int threads) {
  const Walk w(parts, output, extents);
  NamedArray<T> y{output, w.out, {}};
  y.terms = 1;
  for (const int64_t d : w.summed) y.terms = std::min(y.terms, kMaxTerms) * std::min(d, kMaxTerms);
  for (const NamedArray<T>& p : parts) y.terms = std::min(y.terms, kMaxTerms) + std::min(p.terms, kMaxTerms);
  int64_t elements = 1;
  for (const int64_t d : w.out) elements *= d;
  y.made.assign(parts[0].channels.size(), std::vector<T>(static_cast<size_t>(elements)));
  const bool empty = std::find(w.summed.begin(), w.summed.end(), 0) != w.summed.end();
  const int64_t count = positions.empty() ? elements : std::ssize(positions);
  parallel_for(threads, empty ? 0 : count, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> o(w.out.size()), at(parts.size());
    for (int64_t n = begin; n < end; ++n) {
      const int64_t p = positions.empty() ? n : positions[static_cast<size_t>(n)];
      unravel(p, w.out, o);
      for (size_t k = 0; k < parts.size(); ++k) {
        at[k] = 0;
        for (size_t d = 0; d < o.size(); ++d) at[k] += o[d] * w.out_steps[k][d];
      }
      for (size_t c = 0; c < y.made.size(); ++c) {
        const T* const b = parts.size() > 1 ? parts[1].channels[c].data() + at[1] : nullptr;
        y.made[c][static_cast<size_t>(p)] = w.sum<T>(parts[0].channels[c].data() + at[0], b);
      }
    }
  });
  for (const std::vector<T>& channel : y.made) y.channels.emplace_back(channel);
  return y;
}

using Names = std::vector<std::vector<int>>;

// The two whose product takes the fewest multiplications, the first one before the other.
template <class E>
std::pair<size_t, size_t> cheapest(const Names& operands, const std::map<int, E>& extents, double* multiplications) {
  std::pair<size_t, size_t> best = {0, 1};
  *multiplications = HUGE_VAL;
  for (size_t i = 0; i < operands.size(); ++i)
    for (size_t k = i + 1; k < operands.size(); ++k) {
      double count = 1;
      for (const int name : operands[i]) count *= static_cast<double>(extents.at(name));
      for (const int name : operands[k])
        if (!has(operands[i], name)) count *= static_cast<double>(extents.at(name));
      if (count >= *multiplications) continue;
      *multiplications = count;
      best = {i, k};
    }
  return best;
}

// The axes of a product of two that something else names.
std::vector<int> kept_of(const std::vector<int>& a, const std::vector<int>& b, const Names& others,
                         const std::vector<int>& output) {
  std::vector<int> kept;
  for (const auto* names : {&a, &b})
    for (const int name : *names) {
      const bool named =
          has(output, name) || std::any_of(others.begin(), others.end(), [&](auto& o) { return has(o, name); });
      if (named && !has(kept, name)) kept.push_back(name);
    }
  return kept;
}

template <class T>
void take(std::vector<T>* from, std::pair<size_t, size_t> two) {
  from->erase(from->begin() + static_cast<std::ptrdiff_t>(two.second));
  from->erase(from->begin() + static_cast<std::ptrdiff_t>(two.first));
}
}  // namespace

NamedArray<double> named_floats(const RefTensor& x, std::vector<int> names, double u) {
  NamedArray<double> out{std::move(names), x.dims, {x.f}};
  if (u == 0) return out;
  out.made.resize(2);
  for (int64_t k = 0; k < x.numel(); ++k) {
    out.made[0].push_back(std::fabs(x.f[static_cast<size_t>(k)]));
    out.made[1].push_back(out.made[0].back() + x.r(k));
  }
  for (const std::vector<double>& channel : out.made) out.channels.emplace_back(channel);
  return out;
}

NamedArray<uint64_t> named_integers(const RefTensor& x, std::vector<int> names) {
  NamedArray<uint64_t> out{std::move(names), x.dims, {}, {std::vector<uint64_t>(x.i.begin(), x.i.end())}};
  out.channels.emplace_back(out.made[0]);
  return out;
}

template <class T>
NamedArray<T> contracted(std::vector<NamedArray<T>> operands, const std::vector<int>& output,
                         std::span<const int64_t> positions, int threads) {
  Extents extents;
  for (const NamedArray<T>& p : operands)
    for (size_t d = 0; d < p.dims.size(); ++d) {
      const auto [known, fresh] = extents.emplace(p.names[d], p.dims[d]);
      if (!fresh && known->second == 1) known->second = p.dims[d];
    }
  Names names;
  for (const NamedArray<T>& p : operands) names.push_back(p.names);
  while (operands.size() > 2) {
    double multiplications = 0;
    const auto two = cheapest(names, extents, &multiplications);
    const NamedArray<T> pair[2] = {std::move(operands[two.first]), std::move(operands[two.second])};
    take(&operands, two);
    take(&names, two);
    const std::vector<int> kept = kept_of(pair[0].names, pair[1].names, names, output);
    // An axis that broadcasts in both stays 1: what it meets elsewhere has its extent.
    Extents here = extents;
    for (const int name : kept) {
      int64_t most = 1;
      for (const NamedArray<T>& p : pair)
        for (size_t d = 0; d < p.dims.size(); ++d)
          if (p.names[d] == name && p.dims[d] != 1) most = p.dims[d];
      here[name] = most;
    }
    operands.push_back(product<T>(pair, kept, here, {}, threads));
    names.push_back(kept);
  }
  return product<T>(operands, output, extents, positions, threads);
}
template NamedArray<double> contracted(std::vector<NamedArray<double>>, const std::vector<int>&,
                                       std::span<const int64_t>, int);
template NamedArray<uint64_t> contracted(std::vector<NamedArray<uint64_t>>, const std::vector<int>&,
                                         std::span<const int64_t>, int);

double contraction_flops(std::vector<std::vector<int>> operands, const std::vector<int>& output,
                         const std::map<int, double>& extents) {
  double out = 0, multiplications = 1;
  while (operands.size() > 1) {
    const auto two = cheapest(operands, extents, &multiplications);
    const std::vector<int> a = operands[two.first], b = operands[two.second];
    take(&operands, two);
    operands.push_back(kept_of(a, b, operands, output));
    out += 2 * multiplications;
  }
  if (out > 0) return out;
  for (const auto& [name, extent] : extents) multiplications *= extent;
  return multiplications;
}

}  // namespace peri::ops
