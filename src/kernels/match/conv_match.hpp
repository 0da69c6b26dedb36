// Matches a convolution with its epilogue: sizes and strides, or the reason for a refusal.
#pragma once

#include "kernels/match/conv_shape.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {

struct MatchedConv {
  ConvShape shape;
  MatchedEpilogue epilogue;       // the bias is its first step
  int x = -1, w = -1, bias = -1;  // graph inputs
  const ir::Value* inline_bias = nullptr;
};

// The sizes of a node with the attributes of a two-dimensional convolution, from image, weights and result.
Result<ConvShape> conv_sizes(const ir::Node& node, const ir::Value& x, const ir::Value& w);
// A two-dimensional convolution of any type with constant weights, without its epilogue.
Result<MatchedConv> read_conv(const Problem& problem);
// A two-dimensional float32 convolution with constant weights and its epilogue. Explicit and automatic padding.
Result<MatchedConv> match_conv(const Problem& problem);
// The same for any layouts of the problem's values: residuals have the output's layout, NHWC.
Result<MatchedConv> match_conv_any_layout(const Problem& problem);
// Requests NHWC for all four-dimensional activations and the output.
void ask_for_nhwc(const Problem& problem, Offer* offer);

}  // namespace peri::kernels
