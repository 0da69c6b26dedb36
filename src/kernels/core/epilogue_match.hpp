// Reads the element-wise chain behind an anchor as the epilogue of a tiled kernel, or says what stands in the way.
#pragma once

#include <optional>
#include <vector>

#include "kernels/cpu/gemm/epilogue.hpp"
#include "kernels/entry.hpp"

namespace peri::kernels {

// One matched step. `input`: index of the graph input its data comes from; -1: `values` holds a small inline constant.
struct MatchedOp {
  cpu::PostOp op;
  int input = -1;
  std::vector<float> values;
  bool needs_data = false;
};
struct MatchedEpilogue {
  std::vector<MatchedOp> ops;
  int residual = -1;  // graph input of a full-size operand that the output may take the memory of; -1: none
};

// Every node after `anchor` must take part in one chain that ends in the graph's only output. `channel_axis` is the
// logical axis that columns run along. Refuses: other types than f32, operands that are neither a scalar, one value a
// channel, nor full size.
Result<MatchedEpilogue> match_epilogue(const Problem& problem, const ir::Node& anchor, size_t channel_axis);

// The epilogue with its pointers: constants from `constants`, others from `args`. `ld` is the distance of result rows
// in floats. `kept` holds inline values and must outlive the use.
cpu::Epilogue bind_epilogue(const MatchedEpilogue& m, std::span<const Tensor> constants, const Args& args, int64_t ld);

// Graph input index of a value, or -1.
int input_index(const ir::Graph& graph, const ir::Value* v);

}  // namespace peri::kernels
