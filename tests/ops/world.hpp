// Running graphs given as text in the reference, for op tests.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

#include "base/rng.hpp"
#include "ops/entry.hpp"

namespace peri::ops {

inline RefTensor floats(std::vector<int64_t> dims, std::vector<double> values, DType t = DType::kF32) {
  RefTensor x = make_ref(t, std::move(dims));
  EXPECT_EQ(x.f.size(), values.size());
  x.f = std::move(values);
  return x;
}
inline RefTensor ints(std::vector<int64_t> dims, std::vector<int64_t> values, DType t = DType::kI64) {
  RefTensor x = make_ref(t, std::move(dims));
  EXPECT_EQ(x.i.size(), values.size());
  x.i = std::move(values);
  return x;
}

// A text from a printf-style pattern.
template <class... Args>
std::string text_of(const char* pattern, Args... args) {
  std::string out(static_cast<size_t>(std::snprintf(nullptr, 0, pattern, args...)), '\0');
  std::snprintf(out.data(), out.size() + 1, pattern, args...);
  return out;
}

// Outputs of a graph; on failure one invalid tensor and a test failure.
inline std::vector<RefTensor> run_text(std::string_view text, std::span<const RefTensor> inputs,
                                       const RefOptions& options = {}) {
  auto g = ir::parse_graph(text);
  EXPECT_TRUE(g.ok()) << text << "\n" << (g.ok() ? "" : g.error().text());
  if (!g.ok()) return {RefTensor{}};
  auto out = run_reference(*g, inputs, options);
  EXPECT_TRUE(out.ok()) << text << "\n" << (out.ok() ? "" : out.error().text());
  return out.ok() ? *std::move(out) : std::vector<RefTensor>{RefTensor{}};
}

// The error of inference for a graph that must be refused.
inline std::string refusal(std::string_view text) {
  auto g = ir::parse_graph(text);
  if (!g.ok()) return "does not parse: " + g.error().text();
  const Status s = infer_graph(*g);
  return s.ok() ? "" : s.error().text();
}
// Shape of the first output, or the error.
inline std::string shape_of(std::string_view text) {
  auto g = ir::parse_graph(text);
  if (!g.ok()) return g.error().text();
  const Status s = infer_graph(*g);
  return s.ok() ? shape_text(*g->outputs[0]->type.shape) : s.error().text();
}
inline void expect_values(const RefTensor& t, const std::vector<double>& want, double tolerance = 1e-6) {
  ASSERT_EQ(t.f.size(), want.size());
  for (size_t k = 0; k < want.size(); ++k) {
    if (std::isnan(want[k])) {
      EXPECT_TRUE(std::isnan(t.f[k])) << "element " << k;
    } else {
      EXPECT_NEAR(t.f[k], want[k], tolerance) << "element " << k;
    }
  }
}

}  // namespace peri::ops
