// Strides of views, and broadcasting of masks.
#include "kernels/cuda/code/attention_shape.hpp"

namespace peri::kernels::cuda {

std::string place_text(char name, const HeadView& view, Signature* s) {
  std::string at = "0";
  for (size_t letter = 0; letter < 4; ++letter)
    if (const int64_t stride = view.stride[letter]; stride != 0)
      at += std::string(" + (") + "BHSD"[letter] + ") * " + (stride == 1 ? "1" : s->size(stride));
  return std::string("#define PERI_") + name + "_AT(B, H, S, D) (" + at + ")\n";
}

Result<std::string> mask_text(const Problem& p, const MatchedAttention& m, Signature* s) {
  if (m.mask == DType::kInvalid) return std::string();
  if (m.mask == DType::kF64) return refused("a mask of f64");
  PERI_ASSIGN(const std::string name, s->value(p, *p.anchor().in(3)));
  const char* const coordinate[] = {"b", "h", "i", "j"};
  std::string at = "0";
  for (size_t k = 0; k < 4; ++k)
    if (m.mask_strides[k] != 0) at += std::string(" + ") + coordinate[k] + " * " + s->size(m.mask_strides[k]);
  const std::string value = loaded(m.mask, name + "[" + at + "]");
  return m.mask == DType::kBool ? "      if (!" + value + ") score = -peri_inf();\n"
                                : "      score += " + value + ";\n";
}

}  // namespace peri::kernels::cuda
