// Scales and zero points are read where they stand.
#include "kernels/cuda/code/bytes.hpp"

#include "kernels/cuda/code/dims.hpp"

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

Result<std::string> rounded_text(const Problem& p, const Bytes& b, int64_t columns, Signature* s) {
  const std::string head = "PERI_DEVICE int peri_rounded(const int sum, const PERI_INDEX column, PERI_PARAMETERS) {\n";
  if (!b.scaled) return head + "  return sum;\n}\n";
  const auto scale = [&](const ir::Value& v) -> Result<std::string> {
    const int64_t count = numel_of(v);
    if (count != 1 && count != columns) return refused("scales for each matrix");
    PERI_ASSIGN(const std::string name, s->value(p, v));
    return "(double)" + loaded(v.type.dtype, name + "[" + (count == 1 ? "0" : "column") + "]");
  };
  PERI_ASSIGN(const std::string of_a, scale(*b.a_scale));
  PERI_ASSIGN(const std::string of_b, scale(*b.b_scale));
  PERI_ASSIGN(const std::string of_y, scale(*b.y_scale));
  PERI_ASSIGN(const std::string zero, s->value(p, *b.y_zero));
  std::string whole = "(double)sum";
  if (b.bias) {
    if (numel_of(*b.bias) != columns) return refused("a bias of another size");
    PERI_ASSIGN(const std::string bias, s->value(p, *b.bias));
    whole = b.bias->type.dtype == DType::kI32 ? "(double)((peri_i64)sum + " + bias + "[column])"
                                              : whole + " + (double)" + bias + "[column] / unit";
  }
  const bool has_sign = p.anchor().out()->type.dtype == DType::kI8;
  return head + "  const double unit = " + of_a + " * " + of_b + ", whole = " + whole + ", v = rint(whole * (unit / " +
         of_y + ")) + (double)" + zero + "[0];\n" +
         (has_sign ? "  return v < -128.0 ? -128 : v > 127.0 ? 127 : (int)v;\n}\n"
                   : "  return v < 0.0 ? 0 : v > 255.0 ? 255 : (int)v;\n}\n");
}

}  // namespace peri::kernels::cuda
