// Comparison of a rewritten graph with its original: both forms run in the reference on seeded inputs, and its text
// parses back.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/rng.hpp"
#include "ops/entry.hpp"

namespace peri::passes {

// Small, all different, so that a mix-up of dimensions is detected.
inline DimBinding bind_symbols(const ir::Graph& g) {
  std::set<std::string> names;
  for (const ir::Value* v : g.inputs)
    for (const Dim& d : *v->type.shape) d.collect_symbols(names);
  DimBinding out;
  int64_t next = 2;
  for (const std::string& n : names) out[n] = next++;
  return out;
}

inline std::vector<ops::RefTensor> random_inputs(const ir::Graph& g, uint64_t seed) {
  const DimBinding binding = bind_symbols(g);
  Rng rng(seed);
  std::vector<ops::RefTensor> out;
  for (const ir::Value* v : g.inputs) {
    auto dims = eval(*v->type.shape, binding);
    EXPECT_TRUE(dims.ok());
    ops::RefTensor t = ops::make_ref(v->type.dtype, *dims);
    for (double& x : t.f) x = static_cast<double>(static_cast<float>(rng.normal()));
    for (int64_t& x : t.i) x = rng.below(2);
    out.push_back(std::move(t));
  }
  return out;
}

// The results of both graphs at float32 round-off differ by at most the sum of both radii.
inline void expect_same_meaning(const ir::Graph& a, const ir::Graph& b, uint64_t seed) {
  const auto inputs = random_inputs(a, seed);
  const double u = 0x1p-24;
  auto x = ops::run_reference(a, inputs, {u, 1}), y = ops::run_reference(b, inputs, {u, 1});
  ASSERT_TRUE(x.ok()) << x.error().text();
  ASSERT_TRUE(y.ok()) << y.error().text();
  ASSERT_EQ(x->size(), y->size());
  for (size_t o = 0; o < x->size(); ++o) {
    const ops::RefTensor &p = (*x)[o], &q = (*y)[o];
    ASSERT_EQ(p.dims, q.dims) << "output " << o;
    ASSERT_EQ(p.dtype, q.dtype) << "output " << o;
    for (int64_t k = 0; k < p.numel(); ++k) {
      const size_t at = static_cast<size_t>(k);
      if (!p.floating()) {
        ASSERT_EQ(p.i[at], q.i[at]) << "output " << o << " at " << k;
      } else if (!(std::isnan(p.f[at]) && std::isnan(q.f[at])) && p.f[at] != q.f[at]) {
        ASSERT_LE(std::fabs(p.f[at] - q.f[at]), p.r(k) + q.r(k) + 1e-7 * std::fabs(p.f[at]))
            << "output " << o << " at " << k << ": " << p.f[at] << " and " << q.f[at];
      }
    }
  }
}

inline ir::Graph parse(std::string_view text) {
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok()) << text << "\n" << (g.ok() ? "" : g.error().text());
  if (!g.ok()) return ir::Graph();
  const Status s = ops::infer_graph(*g);
  EXPECT_TRUE(s.ok()) << text << "\n" << (s.ok() ? "" : s.error().text());
  return *std::move(g);
}

inline void expect_parses_back(const ir::Graph& g) {
  const std::string text = ir::print(g, {.inline_limit = int64_t{1} << 22});
  auto again = ir::parse_graph(text);
  ASSERT_TRUE(again.ok()) << again.error().text();
  EXPECT_TRUE(ir::equal(g, *again)) << ir::print(g);
}

}  // namespace peri::passes
