// The epilogue of a GEMM or convolution: a short list of element-wise steps, applied in order to each finished tile
// while it is in L1. Plain data; the pointers are arguments of one run.
#pragma once

#include <cstdint>

#include "kernels/match/post_step.hpp"

namespace peri::kernels::cpu {

using kernels::Activation;
using kernels::PostKind;

// A PostStep with its operand. Rows and columns of a convolution: r is the output pixel counted over the batch in NHWC
// order, c the output channel.
struct PostOp {
  PostKind kind = PostKind::kColAdd;
  Activation act = Activation::kRelu;
  float a = 0, b = 0;
  const float* data = nullptr;
  int64_t ld = 0;
  // Batched GEMM: by how many floats the data pointer advances per outer and inner batch index.
  int64_t outer_stride = 0, inner_stride = 0;
};

struct Epilogue {
  static constexpr int kMaxOps = kMaxPostSteps + 1;  // plus the bias
  int count = 0;
  PostOp ops[kMaxOps];
};

// Builders; more than kMaxOps is an internal fault.
Epilogue& add_bias(Epilogue& e, const float* data);
Epilogue& add_residual(Epilogue& e, const float* data, int64_t ld);
Epilogue& add_activation(Epilogue& e, Activation act, float a = 0, float b = 0);
Epilogue& add_op(Epilogue& e, const PostOp& op);

// The prefix of an epilogue that a tile applies to its registers before the first store: [bias] [residual] [relu|clip].
struct RegisterStage {
  const float* bias = nullptr;  // kColAdd
  const float* add = nullptr;   // kAdd
  int64_t add_ld = 0;
  bool clip = false;
  float low = 0, high = 0;
  int consumed = 0;  // number of ops that this stage covers; the rest run as passes over the tile in L1
};
RegisterStage register_stage(const Epilogue& e);

}  // namespace peri::kernels::cpu
