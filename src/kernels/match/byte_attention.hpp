// Matches the attention of a quantised model: a product of bytes, its element-wise chain, softmax, the chain that
// rounds probabilities to bytes, and a product by the values, with the transposes around them. Independent of the
// device.
#pragma once

#include "kernels/match/attention_match.hpp"

namespace peri::kernels {

struct ByteAttention {
  const ir::Node *scores = nullptr, *softmax = nullptr, *values = nullptr;
  const ir::Node* table = nullptr;               // a byte_table that alone reads the scores; null: none
  std::vector<const ir::Node*> before, between;  // the chains behind them to the softmax, and behind it
  // Strides of what the transposes read and of what the last one makes.
  HeadView q, k, v, y;
  const ir::Value *q_from = nullptr, *k_from = nullptr, *v_from = nullptr;  // inputs of the region, no weights
};
// Refuses regions of other nodes, and other ranks than 3 and 4. Types are not checked.
Result<ByteAttention> match_byte_attention(const Problem& problem);

}  // namespace peri::kernels
