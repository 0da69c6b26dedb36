// The element-wise steps after an anchor as kernels apply them to a finished sum, on any device: plain data without
// dependencies, for sources that are compiled per instruction set.
#pragma once

#include <cstdint>

namespace peri::kernels {

// y = act(x). a and b are PostStep::a and PostStep::b.
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

// One step on the value v at row r, column c of the result.
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

struct PostStep {
  PostKind kind = PostKind::kColAdd;
  Activation act = Activation::kRelu;
  float a = 0, b = 0;
};
// After an anchor, not counting its bias.
inline constexpr int kMaxPostSteps = 7;

}  // namespace peri::kernels
