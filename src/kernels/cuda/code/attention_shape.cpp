// Layouts of heads, and what a mask broadcasts over.
#include "kernels/cuda/code/attention_shape.hpp"

namespace peri::kernels::cuda {

namespace {
constexpr std::string_view kLetters = "bhsd";
}

Result<View> view_of(const ir::Value& v, const std::string& word) {
  const std::vector<int64_t> d = dims_of(v);
  if (word.size() != d.size()) return refused("a layout of another rank");
  View out;
  int64_t step = 1;
  for (size_t k = d.size(); k-- > 0;) {
    const size_t letter = kLetters.find(word[k]);
    if (letter == std::string_view::npos) return refused("an unknown layout");
    out.extent[letter] = d[k];
    out.stride[letter] = step;
    step *= d[k];
  }
  return out;
}

Result<std::string> mask_text(const Problem& p, const View& q, int64_t keys, Signature* s) {
  const ir::Value* v = p.anchor().in(3);
  if (!v) return std::string();
  const DType dtype = v->type.dtype;
  if (dtype != DType::kBool && dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16)
    return refused("a mask of another type");
  PERI_ASSIGN(const std::string name, s->value(p, *v));
  const std::vector<int64_t> d = dims_of(*v);
  if (d.size() > 4) return refused("a mask that does not broadcast");
  const int64_t want[4] = {q.extent[0], q.extent[1], q.extent[2], keys};
  const char* const coordinate[] = {"b", "h", "i", "j"};
  std::string at = "0";
  int64_t step = 1;
  for (size_t k = d.size(); k-- > 0;) {
    const size_t axis = 4 - d.size() + k;
    if (d[k] != 1 && d[k] != want[axis]) return refused("a mask that does not broadcast");
    if (d[k] != 1) at += std::string(" + ") + coordinate[axis] + " * " + s->size(step);
    step *= d[k];
  }
  const std::string value = loaded(dtype, name + "[" + at + "]");
  return dtype == DType::kBool ? "      if (!" + value + ") score = -peri_inf();\n" : "      score += " + value + ";\n";
}

}  // namespace peri::kernels::cuda
