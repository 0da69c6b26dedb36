// Attentions in every form that is requested from cuDNN, with their values and expected results.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.hpp"
#include "base/tensor.hpp"
#include "device/cuda/cudnn.hpp"

namespace peri::device::tests {

inline int64_t elements_of(const std::array<int64_t, 4>& dims) { return dims[0] * dims[1] * dims[2] * dims[3]; }

// Values of an attention on the host; the mask hides some keys altogether.
struct AttentionOperands {
  explicit AttentionOperands(const cuda::DnnAttention& v)
      : q(seeded(v.dtype, v.batch * v.heads * v.queries * v.depth, 1)),
        k(seeded(v.dtype, v.batch * v.kv_heads * v.keys * v.depth, 2)),
        v(seeded(v.dtype, v.batch * v.kv_heads * v.keys * v.value_depth, 3)),
        mask(v.mask == DType::kInvalid ? *Tensor::zeros(DType::kF32, {1})
                                       : seeded(v.mask, elements_of(v.mask_dims), 4)),
        y(*Tensor::zeros(v.dtype, {v.batch * v.heads * v.queries * v.value_depth})) {
    for (int64_t at = 0; at < mask.numel() && v.mask != DType::kInvalid; ++at)
      if (at % v.keys % 3 == 1) mask.set_f64(at, -std::numeric_limits<double>::infinity());
  }
  static Tensor seeded(DType dtype, int64_t n, uint64_t seed) {
    Rng rng(seed);
    Tensor t = *Tensor::zeros(dtype, {n});
    for (int64_t k = 0; k < n; ++k) t.set_f64(k, 2 * rng.uniform() - 1);
    return t;
  }
  Tensor q, k, v, mask, y;
};

inline int64_t place_of(const std::array<int64_t, 4>& strides, int64_t b, int64_t h, int64_t s, int64_t d) {
  return b * strides[0] + h * strides[1] + s * strides[2] + d * strides[3];
}

// The row of query i, of value_depth numbers.
inline std::vector<double> expected_row(const cuda::DnnAttention& v, const AttentionOperands& o, int64_t b, int64_t h,
                                        int64_t i) {
  const int64_t shared = h / (v.heads / v.kv_heads);
  std::vector<double> scores(static_cast<size_t>(v.keys)), out(static_cast<size_t>(v.value_depth));
  const auto& m = v.mask_dims;
  for (int64_t j = 0; j < v.keys; ++j) {
    double& score = scores[static_cast<size_t>(j)];
    for (int64_t d = 0; d < v.depth; ++d)
      score += o.q.f64(place_of(v.q, b, h, i, d)) * o.k.f64(place_of(v.k, b, shared, j, d));
    score *= static_cast<double>(v.scale);
    if (v.mask != DType::kInvalid)
      score += o.mask.f64((((m[0] == 1 ? 0 : b) * m[1] + (m[1] == 1 ? 0 : h)) * m[2] + (m[2] == 1 ? 0 : i)) * m[3] + j);
    if (v.causal && j > i) score = -std::numeric_limits<double>::infinity();
  }
  const double high = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& s : scores) sum += s = std::exp(s - high);
  for (int64_t j = 0; j < v.keys; ++j)
    for (int64_t d = 0; d < v.value_depth; ++d)
      out[static_cast<size_t>(d)] += scores[static_cast<size_t>(j)] / sum * o.v.f64(place_of(v.v, b, shared, j, d));
  return out;
}

// The largest difference from what is expected.
inline double worst_of(const cuda::DnnAttention& v, const AttentionOperands& o) {
  double worst = 0;
  for (int64_t b = 0; b < v.batch; ++b)
    for (int64_t h = 0; h < v.heads; ++h)
      for (int64_t i = 0; i < v.queries; ++i) {
        const std::vector<double> row = expected_row(v, o, b, h, i);
        for (int64_t d = 0; d < v.value_depth; ++d) {
          const double off = std::abs(o.y.f64(place_of(v.y, b, h, i, d)) - row[static_cast<size_t>(d)]);
          worst = std::isnan(off) ? HUGE_VAL : std::max(worst, off);
        }
      }
  return worst;
}

inline std::array<int64_t, 4> dense_heads(bool positions_first, int64_t heads, int64_t positions, int64_t depth) {
  if (positions_first) return {positions * heads * depth, depth, heads * depth, 1};
  return {heads * positions * depth, positions * depth, depth, 1};
}

inline cuda::DnnAttention attention_of(DType dtype, int64_t batch, int64_t heads, int64_t queries, int64_t keys,
                                       int64_t depth, bool positions_first = true) {
  cuda::DnnAttention v;
  v.dtype = dtype;
  v.batch = batch;
  v.heads = v.kv_heads = heads;
  v.queries = queries;
  v.keys = keys;
  v.depth = v.value_depth = depth;
  v.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(depth)));
  v.q = v.y = dense_heads(positions_first, heads, queries, depth);
  v.k = v.v = dense_heads(positions_first, heads, keys, depth);
  return v;
}

// One bit each: positions before heads, causal, heads that share keys, values of another depth; then the mask: none,
// one for all queries, one for all of a batch in the attention's type, one for each score.
constexpr int kAttentionForms = 64;
inline cuda::DnnAttention attention_form(DType dtype, int form) {
  const bool causal = form & 2;
  const int64_t keys = causal ? 7 : 12;
  cuda::DnnAttention v = attention_of(dtype, 2, 4, 7, keys, 16, form & 1);
  v.causal = causal;
  if (form & 4) v.kv_heads = 2;
  if (form & 8) v.value_depth = 24;
  v.k = dense_heads(form & 1, v.kv_heads, keys, v.depth);
  v.v = dense_heads(form & 1, v.kv_heads, keys, v.value_depth);
  v.y = dense_heads(form & 1, v.heads, v.queries, v.value_depth);
  const int mask = form >> 4;
  if (mask > 0) v.mask = mask == 2 ? dtype : DType::kF32;
  v.mask_dims = mask == 0   ? std::array<int64_t, 4>{}
                : mask == 1 ? std::array<int64_t, 4>{2, 1, 1, keys}
                : mask == 2 ? std::array<int64_t, 4>{1, 1, 7, keys}
                            : std::array<int64_t, 4>{2, 4, 7, keys};
  return v;
}

}  // namespace peri::device::tests
