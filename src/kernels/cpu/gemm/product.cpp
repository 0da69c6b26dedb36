// The operands, their forms and the epilogue of a product.
#include "kernels/cpu/gemm/product.hpp"

#include <algorithm>

#include "kernels/cpu/gemm/bound_epilogue.hpp"

namespace peri::kernels {
namespace {

Status read_gemm(const Problem& p, const ir::Node& n, Product* s) {
  const std::vector<int64_t> a = dims_of(*n.in(0)), b = dims_of(*n.in(1)), y = dims_of(*n.out());
  if (n.i("transA")) return refused("a transposed left side");
  s->b_transposed = n.i("transB") != 0;
  s->shape.m = y[0];
  s->shape.n = y[1];
  s->shape.k = a[1];
  if (n.f("alpha", 1.0) != 1.0) return refused("alpha is not 1");
  if (!n.in(2)) return Ok{};
  if (n.f("beta", 1.0) != 1.0) return refused("beta is not 1");
  const std::vector<int64_t> c = dims_of(*n.in(2));
  int64_t numel = 1;
  for (int64_t d : c) numel *= d;
  if (c.empty() || c.back() != y[1] || numel != y[1]) return refused("its third input is not one value a column");
  MatchedOp bias;
  bias.op.kind = cpu::PostKind::kColAdd;
  bias.needs_data = true;
  bias.input = input_index(*p.graph, n.in(2));
  if (bias.input < 0)
    for (int64_t k = 0; k < n.in(2)->constant->numel(); ++k)
      bias.values.push_back(static_cast<float>(n.in(2)->constant->f64(k)));
  s->epilogue.ops.insert(s->epilogue.ops.begin(), std::move(bias));
  return Ok{};
}

Status read_matmul(const Problem& p, const ir::Node& n, Product* s) {
  const std::vector<int64_t> a = dims_of(*n.in(0)), b = dims_of(*n.in(1));
  if (a.size() < 2 || b.size() < 2) return refused("a vector operand");
  s->shape.k = a.back();
  s->shape.n = b.back();
  const int64_t m = a[a.size() - 2];
  int64_t a_batch = 1, b_batch = 1;
  for (size_t k = 0; k + 2 < a.size(); ++k) a_batch *= a[k];
  for (size_t k = 0; k + 2 < b.size(); ++k) b_batch *= b[k];
  if (b_batch == 1) {  // rows of all batches are rows of one product
    s->shape.m = a_batch * m;
    return Ok{};
  }
  const bool same = a.size() == b.size() && std::equal(a.begin(), a.end() - 2, b.begin());
  if (!same) return refused("batch dimensions that broadcast");
  if (!s->epilogue.ops.empty())
    for (const MatchedOp& m_op : s->epilogue.ops)
      if (m_op.op.kind == cpu::PostKind::kAdd || m_op.op.kind == cpu::PostKind::kMul)
        return refused("a full-size operand behind a batched product");
  if (p.constant[static_cast<size_t>(s->b)]) return refused("a batched constant right side");
  s->shape.m = m;
  s->shape.batch = a_batch;
  s->a_batch = m * s->shape.k;
  s->b_batch = s->shape.k * s->shape.n;
  return Ok{};
}
}  // namespace

Result<Product> read_product(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "gemm" && n.op != "matmul") return refused("not a matrix product");
  if (n.in(0)->type.dtype != DType::kF32)
    return refused("takes f32 only").but_found(std::string(dtype_name(n.in(0)->type.dtype)));
  Product s;
  PERI_ASSIGN(s.epilogue, match_epilogue(p, n, n.out()->type.rank() - 1));
  s.a = input_index(*p.graph, n.in(0));
  s.b = input_index(*p.graph, n.in(1));
  if (s.a < 0 || s.b < 0 || p.constant[static_cast<size_t>(s.a)]) return refused("a constant left side");
  PERI_TRY(n.op == "gemm" ? read_gemm(p, n, &s) : read_matmul(p, n, &s));
  if (s.shape.m < 1 || s.shape.n < 1 || s.shape.batch < 1) return refused("an empty result");
  if (s.epilogue.ops.size() > cpu::Epilogue::kMaxOps) return refused("the epilogue is too long");
  const bool constant = p.constant[static_cast<size_t>(s.b)];
  s.shape.b_form = constant ? cpu::BForm::kPacked : s.b_transposed ? cpu::BForm::kTransposed : cpu::BForm::kRowMajor;
  return s;
}

cpu::GemmArgs Product::args(const Args& args, const float* packed, std::span<const Tensor> constants,
                            size_t output) const {
  cpu::GemmArgs out;
  out.a = static_cast<const float*>(args.in[static_cast<size_t>(a)]);
  out.lda = shape.k;
  out.a_outer = a_batch;
  out.b = packed ? packed : static_cast<const float*>(args.in[static_cast<size_t>(b)]);
  out.ldb = b_transposed ? shape.k : shape.n;
  out.b_outer = b_batch;
  out.c = static_cast<float*>(args.out[output]);
  out.ldc = shape.n;
  out.c_outer = shape.m * shape.n;
  out.epilogue = bind_epilogue(epilogue, constants, args, shape.n);
  return out;
}

}  // namespace peri::kernels
