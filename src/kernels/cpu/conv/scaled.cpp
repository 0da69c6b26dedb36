// Scaling of packed weights.
#include "kernels/cpu/conv/scaled.hpp"

namespace peri::kernels::cpu {

void scale_packed_weights(const float* packed, const ConvShape& s, Isa isa, const float* scale, float* out) {
  const PanelSplit panels = plan_conv(s, isa).panels;
  for (int64_t p = 0; p < panels.panels; ++p) {
    const int64_t width = panels.width(p), begin = p * panels.panel_columns * s.ic;
    for (int64_t c = 0; c < s.ic; ++c) {
      const float* from = packed + begin + c * width;
      float* to = out + begin + c * width;
      for (int64_t k = 0; k < width; ++k) to[k] = from[k] * scale[c];
    }
  }
}

Epilogue from_row(Epilogue e, int64_t row) {
  for (int k = 0; k < e.count; ++k) {
    PostOp& op = e.ops[k];
    if (op.kind == PostKind::kRowAdd || op.kind == PostKind::kRowMul) op.data += row;
    if (op.kind == PostKind::kAdd || op.kind == PostKind::kMul) op.data += row * op.ld;
  }
  return e;
}

}  // namespace peri::kernels::cpu
