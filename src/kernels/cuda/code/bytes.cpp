// Scales and zero points are read where they stand.
#include "kernels/cuda/code/bytes.hpp"

#include "kernels/cuda/code/dims.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels::cuda {

namespace {
bool is_byte(const ir::Value* v) { return v->type.dtype == DType::kU8 || v->type.dtype == DType::kI8; }

}  // namespace

Result<Bytes> read_bytes(const ir::Node& n) {
  Bytes out;
  out.conv = n.op == "conv_integer" || n.op == "qlinear_conv";
  out.scaled = n.op == "qlinear_conv" || n.op == "qlinear_matmul";
  if (!out.conv && !out.scaled && n.op != "matmul_integer")
    return refused("neither a product of bytes nor a convolution");
  out.a = n.in(0);
  out.b = n.in(out.scaled ? 3 : 1);
  out.a_zero = n.in(2);
  out.b_zero = n.in(out.scaled ? 5 : 3);
  if (out.scaled) {
    out.a_scale = n.in(1);
    out.b_scale = n.in(4);
    out.y_scale = n.in(6);
    out.y_zero = n.in(7);
    out.bias = n.in(8);
  }
  if (!is_byte(out.a) || !is_byte(out.b) || (out.scaled && !is_byte(n.out())))
    return refused("takes u8 and i8 only").but_found(std::string(dtype_name(out.a->type.dtype)));
  for (const ir::Value* v : {out.a_zero, out.a_scale, out.y_scale, out.y_zero})
    if (v && numel_of(*v) != 1) return refused("a scale or zero point for each row");
  return out;
}

Result<std::string> zero_text(const Problem& p, const ir::Value* zero, const std::string& at, int64_t columns,
                              Signature* s) {
  if (!zero) return std::string();
  bool none = zero->constant.has_value();
  for (int64_t k = 0; none && k < zero->constant->numel(); ++k) none = zero->constant->i64(k) == 0;
  if (none) return std::string();
  const int64_t count = numel_of(*zero);
  if (count != 1 && count != columns) return refused("zero points for each matrix");
  PERI_ASSIGN(const std::string name, s->value(p, *zero));
  return " - (int)" + name + "[" + (count == 1 ? "0" : at) + "]";
}

namespace {
const float* one_scale(const ir::Value& v) {
  return v.constant && v.constant->numel() == 1 && v.constant->dtype() == DType::kF32 ? v.constant->as<float>().data()
                                                                                      : nullptr;
}

// Text of the factor of a column: computed in float64 as the reference does; where the scales of the weights alone are
// an input that is constant, once, when they are uploaded.
Result<std::string> factor_text(const Problem& p, const Bytes& b, int64_t columns, Signature* s,
                                std::vector<PackedWeight>* packed) {
  const int of_b = input_index(*p.graph, b.b_scale);
  const float *const a = one_scale(*b.a_scale), *const y = one_scale(*b.y_scale);
  if (a && y && of_b >= 0 && p.constant[static_cast<size_t>(of_b)] && numel_of(*b.b_scale) == columns &&
      b.b_scale->type.dtype == DType::kF32) {
    packed->push_back({static_cast<size_t>(of_b), [a = *a, y = *y](const Tensor& scales) -> Result<Tensor> {
                         PERI_ASSIGN(Tensor out, Tensor::zeros(DType::kF64, {scales.numel()}));
                         for (int64_t k = 0; k < scales.numel(); ++k)
                           out.set_f64(k, double{a} * scales.f64(k) / double{y});
                         return out;
                       }});
    return "((const double*)" + s->packed(packed->size() - 1) + ")[column]";
  }
  const auto scale = [&](const ir::Value& v) -> Result<std::string> {
    const int64_t count = numel_of(v);
    if (count != 1 && count != columns) return refused("scales for each matrix");
    PERI_ASSIGN(const std::string name, s->value(p, v));
    return "(double)" + loaded(v.type.dtype, name + "[" + (count == 1 ? "0" : "column") + "]");
  };
  PERI_ASSIGN(const std::string left, scale(*b.a_scale));
  PERI_ASSIGN(const std::string right, scale(*b.b_scale));
  PERI_ASSIGN(const std::string result, scale(*b.y_scale));
  return left + " * " + right + " / " + result;
}
}  // namespace

Result<std::string> rounded_text(const Problem& p, const Bytes& b, int64_t columns, Signature* s,
                                 std::vector<PackedWeight>* packed) {
  const std::string head = "PERI_DEVICE int peri_rounded(const int sum, const PERI_INDEX column, PERI_PARAMETERS) {\n";
  if (!b.scaled) return head + "  return sum;\n}\n";
  PERI_ASSIGN(const std::string factor, factor_text(p, b, columns, s, packed));
  PERI_ASSIGN(const std::string zero, s->value(p, *b.y_zero));
  std::string whole = "(double)sum";
  if (b.bias) {
    if (numel_of(*b.bias) != columns) return refused("a bias of another size");
    PERI_ASSIGN(const std::string bias, s->value(p, *b.bias));
    if (b.bias->type.dtype == DType::kI32) {
      whole = "(double)((peri_i64)sum + " + bias + "[column])";
    } else {  // in no unit
      PERI_ASSIGN(const std::string a, s->value(p, *b.a_scale));
      PERI_ASSIGN(const std::string w, s->value(p, *b.b_scale));
      whole += " + (double)" + bias + "[column] / ((double)" + loaded(b.a_scale->type.dtype, a + "[0]") +
               " * (double)" + loaded(b.b_scale->type.dtype, w + (numel_of(*b.b_scale) == 1 ? "[0]" : "[column]")) +
               ")";
    }
  }
  const int low = p.anchor().out()->type.dtype == DType::kI8 ? -128 : 0;
  return head + "  const int zero = (int)" + zero + "[0], v = peri_nearest((" + whole + ") * (" + factor + "));\n" +
         format("  return v < %d - zero ? %d : v > %d - zero ? %d : v + zero;\n}\n", low, low, low + 255, low + 255);
}

}  // namespace peri::kernels::cuda
