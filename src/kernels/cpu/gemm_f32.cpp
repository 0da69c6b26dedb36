// Kernel gemm_f32: float32 matrix products (matmul, gemm) with their epilogue. A constant right side is packed once;
// other right sides are packed by each task as it goes; batch dimensions of matmul run as batches.
#include <algorithm>

#include "kernels/core/epilogue_match.hpp"
#include "kernels/core/packed.hpp"
#include "kernels/cpu/gemm/gemm.hpp"
#include "kernels/entry.hpp"

namespace peri::kernels {
namespace {
using cpu::best_isa;
using cpu::BForm;
using cpu::Epilogue;
using cpu::GemmArgs;
using cpu::GemmPlan;
using cpu::GemmShape;
using cpu::isa_name;
using cpu::pack_b;
using cpu::packed_b_floats;
using cpu::plan_gemm;
using cpu::PostKind;

struct Setup {
  GemmShape shape;
  MatchedEpilogue epilogue;
  int a = -1, b = -1;
  bool b_transposed = false;
  float alpha = 1;
  int64_t a_batch = 0, b_batch = 0;  // strides from product to product, in elements
};

Status read_gemm(const Problem& p, const ir::Node& n, Setup* s) {
  const std::vector<int64_t> a = dims_of(*n.in(0)), b = dims_of(*n.in(1)), y = dims_of(*n.out());
  if (n.i("transA")) return refused("a transposed left side");
  s->b_transposed = n.i("transB") != 0;
  s->shape.m = y[0], s->shape.n = y[1], s->shape.k = a[1];
  s->alpha = static_cast<float>(n.f("alpha", 1.0));
  if (s->alpha != 1.0f) return refused("alpha is not 1");
  if (!n.in(2)) return Ok{};
  if (n.f("beta", 1.0) != 1.0) return refused("beta is not 1");
  const std::vector<int64_t> c = dims_of(*n.in(2));
  int64_t numel = 1;
  for (int64_t d : c) numel *= d;
  if (c.empty() || c.back() != y[1] || numel != y[1]) return refused("its third input is not one value a column");
  MatchedOp bias;
  bias.op.kind = PostKind::kColAdd;
  bias.needs_data = true;
  bias.input = input_index(*p.graph, n.in(2));
  if (bias.input < 0)
    for (int64_t k = 0; k < n.in(2)->constant->numel(); ++k)
      bias.values.push_back(static_cast<float>(n.in(2)->constant->f64(k)));
  s->epilogue.ops.insert(s->epilogue.ops.begin(), std::move(bias));
  return Ok{};
}

Status read_matmul(const Problem& p, const ir::Node& n, Setup* s) {
  const std::vector<int64_t> a = dims_of(*n.in(0)), b = dims_of(*n.in(1));
  if (a.size() < 2 || b.size() < 2) return refused("a vector operand");
  s->shape.k = a.back(), s->shape.n = b.back();
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
      if (m_op.op.kind == PostKind::kAdd || m_op.op.kind == PostKind::kMul)
        return refused("a full-size operand behind a batched product");
  if (p.constant[static_cast<size_t>(s->b)]) return refused("a batched constant right side");
  s->shape.m = m;
  s->shape.batch = a_batch;
  s->a_batch = m * s->shape.k;
  s->b_batch = s->shape.k * s->shape.n;
  return Ok{};
}

Result<Setup> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "gemm" && n.op != "matmul") return refused("not a matrix product");
  if (n.in(0)->type.dtype != DType::kF32)
    return refused("takes f32 only").but_found(std::string(dtype_name(n.in(0)->type.dtype)));
  Setup s;
  PERI_ASSIGN(s.epilogue, match_epilogue(p, n, n.out()->type.rank() - 1));
  s.a = input_index(*p.graph, n.in(0));
  s.b = input_index(*p.graph, n.in(1));
  if (s.a < 0 || s.b < 0 || p.constant[static_cast<size_t>(s.a)]) return refused("a constant left side");
  PERI_TRY(n.op == "gemm" ? read_gemm(p, n, &s) : read_matmul(p, n, &s));
  if (s.shape.m < 1 || s.shape.n < 1 || s.shape.batch < 1) return refused("an empty result");
  if (s.epilogue.ops.size() > Epilogue::kMaxOps) return refused("the epilogue is too long");
  const bool constant = p.constant[static_cast<size_t>(s.b)];
  s.shape.b_form = constant ? BForm::kPacked : s.b_transposed ? BForm::kTransposed : BForm::kRowMajor;
  return s;
}

// The input whose memory the result may take; -1: none. Only a constant right side has the same depth at every size.
int taken(const Problem& p, const Setup& s, const GemmPlan& plan) {
  const bool one_pass = s.shape.b_form == BForm::kPacked && plan.k_block >= s.shape.k;
  return one_pass ? shared_residual(p, s.epilogue) : -1;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_ASSIGN(const Setup s, read(p));
  PERI_ASSIGN(const auto isa, best_isa(target));
  Offer o;
  o.inputs.resize(p.graph->inputs.size());
  o.outputs.resize(1);
  o.in_place = {taken(p, s, plan_gemm(s.shape, isa))};
  o.requires_isa = isa_name(isa);
  return std::vector<Offer>{std::move(o)};
}

class GemmInstance final : public Instance {
 public:
  GemmInstance(Setup setup, GemmPlan plan, Packed packed, std::vector<Tensor> constants, int taken)
      : taken_(taken),
        setup_(std::move(setup)),
        plan_(std::move(plan)),
        packed_(std::move(packed)),
        constants_(std::move(constants)) {}
  size_t scratch_bytes() const override { return static_cast<size_t>(plan_.scratch_floats) * sizeof(float); }
  int64_t tasks(int) const override { return plan_.tasks; }
  bool may_take(size_t output, size_t input) const override {
    return output == 0 && taken_ >= 0 && input == static_cast<size_t>(taken_);
  }
  void run_task(int, int64_t task, const Args& args) const override {
    GemmArgs a;
    a.a = static_cast<const float*>(args.in[static_cast<size_t>(setup_.a)]);
    a.lda = setup_.shape.k;
    a.a_outer = setup_.a_batch;
    a.b = packed_ ? packed_floats(packed_) : static_cast<const float*>(args.in[static_cast<size_t>(setup_.b)]);
    a.ldb = setup_.b_transposed ? setup_.shape.k : setup_.shape.n;
    a.b_outer = setup_.b_batch;
    a.c = static_cast<float*>(args.out[0]);
    a.ldc = setup_.shape.n;
    a.c_outer = setup_.shape.m * setup_.shape.n;
    a.epilogue = bind_epilogue(setup_.epilogue, constants_, args, setup_.shape.n);
    cpu::run_task(plan_, a, task, reinterpret_cast<float*>(args.scratch));
  }

 private:
  int taken_;
  Setup setup_;
  GemmPlan plan_;
  Packed packed_;
  std::vector<Tensor> constants_;
};

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  for (const ir::Value* v : p.graph->inputs)
    if (!v->type.layout.row_major()) return invalid("takes row-major tensors only");
  PERI_ASSIGN(Setup s, read(p));
  PERI_ASSIGN(const auto isa, best_isa(*c.target));
  Packed packed;
  if (s.shape.b_form == BForm::kPacked) {
    PERI_TRY(pack_once(c, "", packed_b_floats(s.shape.k, s.shape.n, isa), [&](float* to) {
      pack_b(c.constants[static_cast<size_t>(s.b)].as<float>().data(), s.b_transposed ? s.shape.k : s.shape.n,
             s.b_transposed, s.shape.k, s.shape.n, isa, to);
    }));
    packed = *c.packed;
  }
  std::vector<Tensor> constants = c.constants.all_but({packed ? s.b : -1});
  GemmPlan plan = plan_gemm(s.shape, isa);
  const int take = taken(p, s, plan);
  return std::unique_ptr<Instance>(
      std::make_unique<GemmInstance>(std::move(s), std::move(plan), std::move(packed), std::move(constants), take));
}
}  // namespace

extern const Entry gemm_f32_entry;
const Entry gemm_f32_entry{{
    .name = "gemm_f32",
    .version = 1,
    .provider = "peri",
    .takes = "float32 matrix products, constant right sides packed once, with bias, residual and activation",
    .offer = offer,
    .instantiate = instantiate,
}};

}  // namespace peri::kernels
