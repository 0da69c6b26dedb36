// What happens to a GEMM's or convolution's sums before they leave L1: a short list of element-wise steps, applied in
// order to each finished tile. Plain data; the pointers live in the arguments of one run.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu {

// y = act(x). a and b are PostOp::a and PostOp::b where they are named.
enum class Activation : uint8_t {
  kRelu,         // max(x, 0)
  kClip,         // min(max(x, a), b)
  kLeakyRelu,    // x < 0 ? a*x : x
  kSigmoid,      // 1 / (1 + exp(-x))
  kSilu,         // x * sigmoid(x)
  kTanh,         //
  kHardSigmoid,  // max(0, min(1, a*x + b))
  kHardSwish,    // x * max(0, min(1, x/6 + 0.5))
  kGelu,         // 0.5 * x * (1 + erf(x / sqrt(2)))
  kGeluTanh,     // 0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))
};

// One step on the value v at row r, column c of the result (a convolution: r = output pixel counted over the batch in
// NHWC order, c = output channel).
enum class PostKind : uint8_t {
  kColAdd,      // v + data[c]                 the bias
  kColMul,      // v * data[c]
  kRowAdd,      // v + data[r]
  kRowMul,      // v * data[r]
  kAdd,         // v + data[r * ld + c]        the residual; ld = 0 repeats one row
  kMul,         // v * data[r * ld + c]
  kAffine,      // v * a + b                   one rounding
  kActivation,  // act(v)
};

struct PostOp {
  PostKind kind = PostKind::kColAdd;
  Activation act = Activation::kRelu;
  float a = 0, b = 0;
  const float* data = nullptr;
  int64_t ld = 0;
  // Batched GEMM: what the data pointer advances by, in floats, per outer and inner batch index.
  int64_t outer_stride = 0, inner_stride = 0;
};

struct Epilogue {
  static constexpr int kMaxOps = 8;
  int count = 0;
  PostOp ops[kMaxOps];
};

// Builders; they abort beyond kMaxOps (our own bug).
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
  int consumed = 0;  // how many of the ops this stage covers; the rest run as passes over the tile in L1
};
RegisterStage register_stage(const Epilogue& e);

}  // namespace peri::kernels::cpu
