// The operands of a product, their forms, and its epilogue.
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

// Batch dimensions as one or two nested loops over products, with a stride of each side.
Status read_batches(std::span<const int64_t> a, std::span<const int64_t> b, Product* s) {
  struct Loop {
    int64_t extent, a_step, b_step;
  };
  std::vector<Loop> loops;  // innermost first
  int64_t a_step = s->shape.m * s->shape.k, b_step = s->shape.k * s->shape.n;
  for (size_t k = 0; k < std::max(a.size(), b.size()); ++k) {
    const int64_t da = k < a.size() ? a[a.size() - 1 - k] : 1, db = k < b.size() ? b[b.size() - 1 - k] : 1;
    const Loop own = {std::max(da, db), da == 1 ? 0 : a_step, db == 1 ? 0 : b_step};
    a_step *= da;
    b_step *= db;
    if (own.extent == 1) continue;
    if (!loops.empty() && own.a_step == loops.back().a_step * loops.back().extent &&
        own.b_step == loops.back().b_step * loops.back().extent)
      loops.back().extent *= own.extent;
    else
      loops.push_back(own);
  }
  if (loops.size() > 2) return refused("batch dimensions that broadcast in more than two groups");
  loops.resize(2, {1, 0, 0});
  s->shape.batch = loops[0].extent * loops[1].extent;
  s->shape.batch_inner = loops[0].extent;
  s->a_inner = loops[0].a_step;
  s->b_inner = loops[0].b_step;
  s->a_batch = loops[1].a_step;
  s->b_batch = loops[1].b_step;
  return Ok{};
}

Status read_matmul(const ir::Node& n, Product* s) {
  std::vector<int64_t> a = dims_of(*n.in(0)), b = dims_of(*n.in(1));
  if (a.size() < 2 || b.size() < 2) {  // a vector is a row on the left, a column on the right
    if (!s->epilogue.ops.empty()) return refused("an epilogue behind a vector");
    if (a.size() == 1) a.insert(a.begin(), 1);
    if (b.size() == 1) b.push_back(1);
  }
  s->shape.k = a.back();
  s->shape.n = b.back();
  s->shape.m = a[a.size() - 2];
  const std::span<const int64_t> a_batch(a.data(), a.size() - 2), b_batch(b.data(), b.size() - 2);
  for (const std::span<const int64_t>& batch : {a_batch, b_batch})
    if (std::find(batch.begin(), batch.end(), 0) != batch.end()) return refused("an empty result");
  if (std::all_of(b_batch.begin(), b_batch.end(), [](int64_t d) { return d == 1; })) {
    for (int64_t d : a_batch) s->shape.m *= d;  // rows of all batches are rows of one product
    return Ok{};
  }
  for (const MatchedOp& op : s->epilogue.ops)
    if (op.op.kind == cpu::PostKind::kAdd || op.op.kind == cpu::PostKind::kMul)
      return refused("a full-size operand behind a batched product");
  return read_batches(a_batch, b_batch, s);
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
  if (s.a < 0 || s.b < 0) return refused("an operand made inside the region");
  PERI_TRY(n.op == "gemm" ? read_gemm(p, n, &s) : read_matmul(n, &s));
  if (s.shape.m < 1 || s.shape.n < 1 || s.shape.batch < 1) return refused("an empty result");
  if (s.epilogue.ops.size() > cpu::Epilogue::kMaxOps) return refused("the epilogue is too long");
  const bool constant = p.constant[static_cast<size_t>(s.b)] && s.shape.batch == 1;
  s.shape.b_form = constant ? cpu::BForm::kPacked : s.b_transposed ? cpu::BForm::kTransposed : cpu::BForm::kRowMajor;
  return s;
}

cpu::GemmArgs Product::args(const Args& args, const float* packed, std::span<const Tensor> constants,
                            size_t output) const {
  cpu::GemmArgs out;
  const auto operand = [&](int k) {
    const size_t at = static_cast<size_t>(k);
    const bool held = at < constants.size() && constants[at].defined();
    return held ? constants[at].as<float>().data() : static_cast<const float*>(args.in[at]);
  };
  out.a = operand(a);
  out.lda = shape.k;
  out.a_outer = a_batch;
  out.a_inner = a_inner;
  out.b = packed ? packed : operand(b);
  out.ldb = b_transposed ? shape.k : shape.n;
  out.b_outer = b_batch;
  out.b_inner = b_inner;
  out.c = static_cast<float*>(args.out[output]);
  out.ldc = shape.n;
  out.c_outer = shape.m * shape.n * shape.batch_inner;
  out.c_inner = shape.m * shape.n;
  out.epilogue = bind_epilogue(epilogue, constants, args, shape.n);
  return out;
}

}  // namespace peri::kernels
