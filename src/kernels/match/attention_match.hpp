// Matches a fused attention: extents, strides of each tensor, the mask. Independent of the device.
#pragma once

#include <array>
#include <optional>

#include "kernels/entry.hpp"

namespace peri::kernels {

// Extents and strides in elements by b, h, s, d (batch, heads, positions, depth) of a dense tensor.
struct HeadView {
  std::array<int64_t, 4> extent = {1, 1, 1, 1}, stride = {0, 0, 0, 0};
};
struct MatchedAttention {
  HeadView q, k, v, y;
  int64_t batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1, depth = 1, value_depth = 1;
  float scale = 1;
  float cap = 0;  // not 0: scores are cap * tanh(score / cap) before the mask
  bool causal = false, zero_hidden = false;
  int64_t causal_offset = 0;                           // query i sees keys up to i + causal_offset
  DType mask = DType::kInvalid;                        // its type; kInvalid: there is none
  std::array<int64_t, 4> mask_strides = {0, 0, 0, 0};  // by batch, head, query, key; 0 repeats
};
// Types are not checked, except the mask's, which is a float or bool. Refuses another op, a number of heads that is not
// a multiple, a mask that does not broadcast to the scores, a soft cap that f32 does not hold.
Result<MatchedAttention> match_attention(const ir::Node& node);

}  // namespace peri::kernels
