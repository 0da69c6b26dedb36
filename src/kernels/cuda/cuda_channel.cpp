// Kernel cuda_channel: batch normalisation and local response normalisation with the element-wise chain after them, on
// a GPU, one thread per element.
#include <algorithm>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/each.hpp"
#include "kernels/cuda/code/entry.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;

Result<std::string> batch(const Problem& p, const ir::Node& n, Signature* s) {
  if (n.i("training_mode") != 0 || n.outputs.size() != 1) return refused("a training mode");
  const char* const names[] = {"x", "scale", "bias", "mean", "variance"};
  std::string out;
  for (size_t k = 0; k < 5; ++k) {
    PERI_ASSIGN(const std::string from, s->value(p, *n.in(k)));
    out += std::string("    const float ") + names[k] + " = " +
           cuda::loaded(n.in(k)->type.dtype, from + (k == 0 ? "[i]" : "[channel]")) + ";\n";
  }
  return out + format("    const float v = (x - mean) * (1.0f / sqrtf(variance + (float)%.9g)) * scale + bias;\n",
                      n.f("epsilon", 1e-5));
}

Result<std::string> response(const Problem& p, const ir::Node& n, int64_t channels, Signature* s) {
  const int64_t size = n.i("size"), before = (size - 1) / 2, after = size - 1 - before;
  PERI_ASSIGN(const std::string x, s->value(p, *n.in(0)));
  const DType t = n.in(0)->type.dtype;
  const std::string all = s->size(channels);
  return "    float squares = 0.0f;\n    const PERI_INDEX low = channel > " + s->size(before) + " ? channel - " +
         s->size(before) + " : 0, high = channel + " + s->size(after) + " < " + all + " ? channel + " + s->size(after) +
         " : " + all + " - 1;\n    for (PERI_INDEX c = low; c <= high; ++c) {\n      const float u = " +
         cuda::loaded(t, x + "[i + (c - channel) * PERI_IMAGE]") + ";\n      squares = fmaf(u, u, squares);\n    }\n" +
         format("    const float v = %s * powf((float)%.9g + (float)%.9g * squares, -(float)%.9g);\n",
                cuda::loaded(t, x + "[i]").c_str(), n.f("bias", 1),
                n.f("alpha", 1e-4F) / static_cast<double>(std::max<int64_t>(size, 1)), n.f("beta", 0.75));
}

Result<std::vector<KernelLaunch>> plan(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "batch_normalization" && n.op != "lrn") return refused("no normalisation by channels");
  for (const ir::Value* v : n.inputs)
    if (v && v->type.dtype != DType::kF32 && v->type.dtype != DType::kF16 && v->type.dtype != DType::kBF16)
      return refused("takes f32, f16 and bf16 only").but_found(std::string(dtype_name(v->type.dtype)));
  const std::vector<int64_t> d = dims_of(*n.in(0));
  const int64_t channels = d.size() > 1 ? d[1] : 1;
  const int64_t image = cuda::elements_of(std::span(d).subspan(std::min<size_t>(d.size(), 2)));
  Signature s;
  std::string body = "    const PERI_INDEX channel = i / PERI_IMAGE % " + s.size(channels) + ";\n";
  PERI_ASSIGN(const std::string value, n.op == "lrn" ? response(p, n, channels, &s) : batch(p, n, &s));
  PERI_ASSIGN(const std::string finish, cuda::finish_text(p, true, &s));
  body += value + "    peri_finish(i, v, PERI_PASS);\n";
  const int64_t count = cuda::numel_of(*n.out());
  const std::string text =
      "#define PERI_IMAGE " + s.size(image) + "\n" + finish + cuda::each_text("peri_channel", s.size(count), body);
  return cuda::each_launch(p, s, "peri_channel", count, text);
}
}  // namespace

extern const Entry cuda_channel_entry;
const Entry cuda_channel_entry = cuda::entry_of<plan>(
    "cuda_channel", "batch normalisation and local response normalisation on a GPU, with their epilogue");

}  // namespace peri::kernels
