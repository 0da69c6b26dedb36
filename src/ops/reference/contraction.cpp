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
  int64_t elements = 1;
  for (const int64_t d : w.out) elements *= d;
  y.made.assign(parts[0].channels.size(), std::vector<T>(static_cast<size_t>(elements)));
  const bool empty = std::find(w.summed.begin(), w.summed.end(), 0) != w.summed.end();
  const int64_t count = positions.empty() ? elements : std::ssize(positions);
  parallel_for(threads, empty ? 0 : count, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> o(w.out.size());
    for (int64_t n = begin; n < end; ++n) {
      const int64_t p = positions.empty() ? n : positions[static_cast<size_t>(n)];
      unravel(p, w.out, o);
      int64_t at[2] = {0, 0};
      for (size_t k = 0; k < parts.size(); ++k)
        for (size_t d = 0; d < o.size(); ++d) at[k] += o[d] * w.out_steps[k][d];
      for (size_t c = 0; c < y.made.size(); ++c) {
        const T* const b = parts.size() > 1 ? parts[1].channels[c].data() + at[1] : nullptr;
        y.made[c][static_cast<size_t>(p)] = w.sum<T>(parts[0].channels[c].data() + at[0], b);
      }
    }
  });
  for (const std::vector<T>& channel : y.made) y.channels.emplace_back(channel);
  return y;
}

template <class T>
double multiplications(const NamedArray<T>& a, const NamedArray<T>& b, const Extents& extents) {
  double out = 1;
  std::vector<int> seen;
  for (const NamedArray<T>* p : {&a, &b})
    for (const int name : p->names)
      if (!has(seen, name)) {
        seen.push_back(name);
        out *= static_cast<double>(extents.at(name));
      }
  return out;
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
  while (operands.size() > 2) {
    size_t first = 0, second = 1;
    const auto cost = [&](size_t i, size_t k) { return multiplications(operands[i], operands[k], extents); };
    for (size_t i = 0; i < operands.size(); ++i)
      for (size_t k = i + 1; k < operands.size(); ++k)
        if (cost(i, k) < cost(first, second)) {
          first = i;
          second = k;
        }
    const NamedArray<T> pair[2] = {std::move(operands[first]), std::move(operands[second])};
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(second));
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(first));
    std::vector<int> kept;
    for (const NamedArray<T>& p : pair)
      for (const int name : p.names) {
        const bool named = has(output, name) ||
                           std::any_of(operands.begin(), operands.end(), [&](auto& o) { return has(o.names, name); });
        if (named && !has(kept, name)) kept.push_back(name);
      }
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
  }
  return product<T>(operands, output, extents, positions, threads);
}
template NamedArray<double> contracted(std::vector<NamedArray<double>>, const std::vector<int>&,
                                       std::span<const int64_t>, int);
template NamedArray<uint64_t> contracted(std::vector<NamedArray<uint64_t>>, const std::vector<int>&,
                                         std::span<const int64_t>, int);

}  // namespace peri::ops
