// Matches the element-wise chain after an anchor as the epilogue of a tiled kernel, or gives the reason for a refusal.
#pragma once

#include <optional>
#include <vector>

#include "kernels/entry.hpp"
#include "kernels/match/post_step.hpp"

namespace peri::kernels {

// One matched step. `input`: index of the graph input with its data; -1: `values` holds a small inline constant.
struct MatchedOp {
  PostStep op;
  int input = -1;
  std::vector<float> values;
  bool needs_data = false;
};
struct MatchedEpilogue {
  std::vector<MatchedOp> ops;
  int residual = -1;  // graph input of the last full-size operand that is added; -1: none
};

// Every node after `anchor` must be part of one chain that ends in the graph's only output. `channel_axis` is the
// logical axis of the columns. Refuses: other types than f32, operands that are neither a scalar, one value per
// channel, nor full size.
Result<MatchedEpilogue> match_epilogue(const Problem& problem, const ir::Node& anchor, size_t channel_axis);

// The graph input whose memory the result may reuse, for kernels that read an element of the residual just before they
// write the same element of the result, in the register stage of their only pass over the sums; -1: none. `e` begins
// with the bias, if there is one. A residual that is also the anchor's operand, or is added by a later step, or twice,
// is read after parts of the result are written: it cannot be shared. Kernels that keep partial sums in the result
// offer no sharing at all.
int shared_residual(const Problem& problem, const MatchedEpilogue& e);
// The same for kernels that may read the residual at any time before the result is written: it must have only one use.
int only_residual(const Problem& problem, const MatchedEpilogue& e);

// Graph input index of a value, or -1.
int input_index(const ir::Graph& graph, const ir::Value* v);

}  // namespace peri::kernels
