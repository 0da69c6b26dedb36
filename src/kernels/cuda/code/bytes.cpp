// What constants decide is made once: factors and biases of columns in float64 when weights are uploaded, single scales
// and zero points as parameters. The rest is read where it stands.
#include "kernels/cuda/code/bytes.hpp"

#include <algorithm>

#include "kernels/cuda/code/dims.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels::cuda {

namespace {
bool is_byte(const ir::Value* v) { return v->type.dtype == DType::kU8 || v->type.dtype == DType::kI8; }

}  // namespace

Result<Bytes> read_bytes(const ir::Node& n) {
  Bytes out;
  out.node = &n;
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

Result<Tensor> as_doubles(const Tensor& t) {
  PERI_ASSIGN(Tensor out, Tensor::zeros(DType::kF64, {t.numel()}));
  for (int64_t k = 0; k < t.numel(); ++k) out.set_f64(k, static_cast<double>(t.i64(k)));
  return out;
}

// A bias in no unit in that of the sums, as the reference has it.
Result<Tensor> in_sums(const Tensor& bias, float a, const Tensor& scales) {
  PERI_ASSIGN(Tensor out, Tensor::zeros(DType::kF64, {bias.numel()}));
  for (int64_t k = 0; k < bias.numel(); ++k)
    out.set_f64(k, bias.f64(k) / (double{a} * scales.f64(scales.numel() == 1 ? 0 : k)));
  return out;
}

// Text of the factor of a column: computed in float64 as the reference does; where the scales of the weights alone are
// an input that is constant, once, when they are uploaded.
Result<std::string> factor_text(const Problem& p, const Bytes& b, int64_t columns, Signature* s,
                                std::vector<PackedWeight>* packed) {
  const int of_b = input_index(*p.graph, b.b_scale);
  const float *const a = one_scale(*b.a_scale), *const y = one_scale(*b.y_scale), *const one = one_scale(*b.b_scale);
  if (a && y && one) return s->number(double{*a} * double{*one} / double{*y});
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

Result<std::string> zero_point_text(const Problem& p, const ir::Value& v, Signature* s) {
  if (v.constant) return s->whole_number(static_cast<int>(v.constant->i64(0)));
  PERI_ASSIGN(const std::string name, s->value(p, v));
  return "(int)" + name + "[0]";
}

Result<Rounding> read_rounding(const Problem& p, const Bytes& b, int64_t columns, Signature* s,
                               std::vector<PackedWeight>* packed) {
  Rounding out;
  if (!b.scaled) return out;
  PERI_ASSIGN(out.factor, factor_text(p, b, columns, s, packed));
  PERI_ASSIGN(out.zero, zero_point_text(p, *b.y_zero, s));
  const ir::Value* y = b.node->out();
  out.low = y->type.dtype == DType::kI8 ? -128 : 0;
  for (const ir::Node* n : p.graph->nodes)
    if (n->op == "byte_table" && n->in(0) == y && y->users.size() == 1) out.table = n;
  const std::vector<ir::Value*>& results = p.graph->outputs;
  if (std::find(results.begin(), results.end(), y) != results.end()) out.table = nullptr;
  if (out.table) {
    PERI_ASSIGN(const std::string table, s->value(p, *out.table->in(1)));
    out.looked_up = "(int)" + table + "[(unsigned)v & 255u]";
  }
  if (!b.bias) return out;
  if (numel_of(*b.bias) != columns) return refused("a bias of another size");
  const auto is_constant = [&](int k) { return k >= 0 && p.constant[static_cast<size_t>(k)]; };
  const int of_bias = input_index(*p.graph, b.bias);
  if (b.bias->type.dtype == DType::kI32 && is_constant(of_bias)) {
    packed->push_back({static_cast<size_t>(of_bias), as_doubles});
    out.bias = "((const double*)" + s->packed(packed->size() - 1) + ")[column]";
    return out;
  }
  const int of_scale = input_index(*p.graph, b.b_scale);
  const float *const a_scale = one_scale(*b.a_scale), *const b_scale = one_scale(*b.b_scale);
  if (is_constant(of_bias) && (is_constant(of_scale) || b_scale) && a_scale && b.bias->type.dtype == DType::kF32 &&
      b.b_scale->type.dtype == DType::kF32) {
    const auto in_both = [a = *a_scale](const Tensor& bias, const Tensor& scales) { return in_sums(bias, a, scales); };
    const auto weight = static_cast<size_t>(of_bias);
    if (b_scale)
      packed->push_back({weight, [in_both, t = *b.b_scale->constant](const Tensor& bias) { return in_both(bias, t); }});
    else
      packed->push_back({weight, nullptr, static_cast<size_t>(of_scale), in_both});
    out.bias = "((const double*)" + s->packed(packed->size() - 1) + ")[column]";
    return out;
  }
  PERI_ASSIGN(const std::string bias, s->value(p, *b.bias));
  if (b.bias->type.dtype == DType::kI32) {
    out.bias = "peri_whole(" + bias + "[column])";
    return out;
  }
  // In no unit.
  PERI_ASSIGN(const std::string a, s->value(p, *b.a_scale));
  PERI_ASSIGN(const std::string w, s->value(p, *b.b_scale));
  out.bias = "(double)" + bias + "[column] / ((double)" + loaded(b.a_scale->type.dtype, a + "[0]") + " * (double)" +
             loaded(b.b_scale->type.dtype, w + (numel_of(*b.b_scale) == 1 ? "[0]" : "[column]")) + ")";
  return out;
}

std::string Rounding::text(const std::string& name) const {
  if (factor.empty())
    return "PERI_DEVICE int " + name + "(const int sum, const double, const double, PERI_PARAMETERS) { return sum; }\n";
  return "PERI_DEVICE int " + name + "_entry(const int v, PERI_PARAMETERS) { return " + looked_up +
         "; }\nPERI_DEVICE int " + name +
         "(const int sum, const double bias, const double factor, PERI_PARAMETERS) {\n  const int zero = " + zero +
         ", v = peri_nearest((peri_whole(sum) + bias) * factor);\n  return " + name +
         format("_entry(v < %d - zero ? %d : v > %d - zero ? %d : v + zero, PERI_PASS);\n}\n", low, low, low + 255,
                low + 255);
}

}  // namespace peri::kernels::cuda
