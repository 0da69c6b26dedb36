// Kernel cuda_quantize: quantize_linear of floats into 8 and 16 bits, and dequantize_linear of 8, 16 bits and int32, by
// one scale, one for each element along an axis, or one for each block along it, on a GPU; one thread per element.
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/each.hpp"
#include "kernels/cuda/code/entry.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;

bool is_real(DType t) { return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16; }
bool is_narrow(DType t) { return t == DType::kU8 || t == DType::kI8 || t == DType::kU16 || t == DType::kI16; }

// The place of the scale of element `i`, as text.
Result<std::string> scale_at(const ir::Node& n, Signature* s) {
  const std::vector<int64_t> d = dims_of(*n.in(0)), scales = dims_of(*n.in(1));
  const int64_t block = n.i("block_size");
  if (cuda::elements_of(scales) == 1) return std::string("0");
  PERI_ASSIGN(const size_t axis, cuda::axis_within(n.i("axis", 1), d.size()));
  const std::string inner = s->size(cuda::elements_of(std::span(d).subspan(axis + 1))), extent = s->size(d[axis]);
  const std::string along = "i / " + inner + " % " + extent;
  if (block == 0) return along;
  if (block < 0 || scales.size() != d.size()) return refused("scales that are neither along an axis nor of blocks");
  return "(i / " + inner + " / " + extent + " * " + s->size(scales[axis]) + " + " + along + " / " + s->size(block) +
         ") * " + inner + " + i % " + inner;
}

Result<std::vector<KernelLaunch>> plan(const Problem& p) {
  const ir::Node& n = p.anchor();
  const bool quantizes = n.op == "quantize_linear";
  if (!quantizes && n.op != "dequantize_linear") return refused("neither quantises nor dequantises");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  PERI_TRY(cuda::check_row_major(*p.graph));
  const DType x = n.in(0)->type.dtype, y = n.out()->type.dtype, scale = n.in(1)->type.dtype;
  const DType narrow = quantizes ? y : x, wide = quantizes ? x : y;
  if (!is_real(wide) || !is_real(scale)) return refused("takes f32, f16 and bf16 only");
  if (!is_narrow(narrow) && (quantizes || narrow != DType::kI32))
    return refused("takes integers of 8 and 16 bits only").but_found(std::string(dtype_name(narrow)));
  if (n.i("precision") != 0 && n.i("precision") != static_cast<int64_t>(scale))
    return refused("divides in the type of the scale");
  Signature s;
  PERI_ASSIGN(const std::string from, s.value(p, *n.in(0)));
  PERI_ASSIGN(const std::string scales, s.value(p, *n.in(1)));
  PERI_ASSIGN(const std::string at, scale_at(n, &s));
  std::string zero = "0";
  if (n.in(2)) {
    PERI_ASSIGN(const std::string zeros, s.value(p, *n.in(2)));
    zero = "(int)" + zeros + "[at]";
  }
  PERI_ASSIGN(const std::string to, s.output(p, 0));
  std::string body = "    const PERI_INDEX at = " + at + ";\n    const int zero = " + zero +
                     ";\n    const float scale = " + cuda::loaded(scale, scales + "[at]") + ";\n";
  if (quantizes) {
    const int bits = static_cast<int>(dtype_bits(narrow));
    const bool has_sign = narrow == DType::kI8 || narrow == DType::kI16;
    const int low = has_sign ? -(1 << (bits - 1)) : 0, high = has_sign ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
    std::string quotient = cuda::loaded(x, from + "[i]") + " / scale";
    if (scale != DType::kF32) quotient = cuda::loaded(scale, cuda::stored(scale, "(" + quotient + ")"));
    PERI_ASSIGN(const std::string type, cuda::stored_type(narrow));
    body += "    const float v = rintf(" + quotient + ") + (float)zero;\n    " + to + "[i] = (" + type +
            format(")(v != v ? 0 : v <= %d.0f ? %d : v >= %d.0f ? %d : (int)v);\n", low, low, high, high);
  } else {
    body += "    " + to + "[i] = " + cuda::stored(y, "((float)((peri_i64)" + from + "[i] - (peri_i64)zero) * scale)") +
            ";\n";
  }
  const int64_t count = cuda::numel_of(*n.out());
  return cuda::each_launch(p, s, "peri_quantize", count, cuda::each_text("peri_quantize", s.size(count), body));
}
}  // namespace

extern const Entry cuda_quantize_entry;
const Entry cuda_quantize_entry = cuda::entry_of<plan>(
    "cuda_quantize", "quantize_linear into 8 and 16 bits and dequantize_linear of these and int32 on a GPU");

}  // namespace peri::kernels
