// Recognition of quantised values.
#include "passes/rewrite/quantized.hpp"

namespace peri::passes {
namespace {
bool is_byte(DType t) { return t == DType::kU8 || t == DType::kI8; }

std::optional<Quantized> read(const ir::Node& n, ir::Value* bytes) {
  Quantized q{bytes, n.inputs[1], n.in(2) ? n.inputs[2] : nullptr, n.i("axis", 1), &n};
  if (n.i("block_size") != 0 || !q.scale->constant || q.scale->type.dtype != DType::kF32) return std::nullopt;
  if (q.scale->constant->rank() > 1 || (q.zero && !q.zero->constant)) return std::nullopt;
  if (q.zero && q.zero->constant->numel() != q.scale->constant->numel()) return std::nullopt;
  for (int64_t k = 0; k < q.scale->constant->numel(); ++k)
    if (!(q.scale->constant->f64(k) > 0)) return std::nullopt;
  return q;
}
}  // namespace

bool Quantized::one() const { return scale->constant->numel() == 1; }

std::optional<Quantized> dequantized(const ir::Value* v) {
  const ir::Node* n = made_by(v, "dequantize_linear");
  if (!n || n->out()->type.dtype != DType::kF32) return std::nullopt;
  return read(*n, n->inputs[0]);
}

std::optional<Quantized> quantized(const ir::Node& n) {
  if (n.op != "quantize_linear" || !is_byte(n.out()->type.dtype) || n.in(0)->type.dtype != DType::kF32)
    return std::nullopt;
  if (n.i("precision") != 0) return std::nullopt;
  const auto q = read(n, n.outputs[0]);
  return q && q->one() ? q : std::nullopt;
}

double element(const ir::Value* v, int64_t k) { return v->constant->f64(v->constant->numel() == 1 ? 0 : k); }

bool same_quantization(const Quantized& a, const Quantized& b) {
  const auto zero = [](const Quantized& q) { return q.zero ? q.zero->constant->i64(0) : 0; };
  return a.one() && b.one() && a.bytes->type.dtype == b.bytes->type.dtype &&
         a.scale->constant->f64(0) == b.scale->constant->f64(0) && zero(a) == zero(b);
}

ir::Value* zero_of(Rewriter& w, const Quantized& q) {
  if (q.zero) return q.zero;
  auto t = Tensor::zeros(q.bytes->type.dtype, q.scale->constant->dims());
  PERI_CHECK(t.ok());
  return w.graph().add_constant(q.scale->name + "_zero", std::move(t).value());
}

}  // namespace peri::passes
