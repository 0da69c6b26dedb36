// Kernel gemm_f32: float32 matrix products (matmul, gemm) with their epilogue. A constant right side is packed once;
// other right sides are packed by each task on the fly; batch dimensions of matmul run as batches.
#include "kernels/cpu/gemm/product.hpp"
#include "kernels/entry.hpp"
#include "kernels/weights/packed.hpp"

namespace peri::kernels {
extern const Entry gemm_f32_entry;

namespace {
using cpu::best_isa;
using cpu::BForm;
using cpu::GemmPlan;
using cpu::isa_name;
using cpu::pack_b;
using cpu::packed_b_floats;
using cpu::plan_gemm;

// The input whose memory the result may take; -1: none. Only a constant right side has the same depth at every size.
int taken(const Problem& p, const Product& s, const GemmPlan& plan) {
  const bool one_pass = s.shape.b_form == BForm::kPacked && plan.k_block >= s.shape.k;
  return one_pass ? shared_residual(p, s.epilogue) : -1;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_ASSIGN(const Product s, read_product(p));
  PERI_ASSIGN(const auto isa, best_isa(target));
  Offer o;
  o.inputs.resize(p.graph->inputs.size());
  o.outputs.resize(1);
  o.in_place = {taken(p, s, plan_gemm(s.shape, isa))};
  o.requires_isa = isa_name(isa);
  return std::vector<Offer>{std::move(o)};
}

Needs needs_from_plan(const GemmPlan& plan) {
  return needs_of_tasks(plan.tasks, static_cast<size_t>(plan.scratch_floats) * sizeof(float));
}

class GemmInstance final : public Instance {
 public:
  GemmInstance(Product product, GemmPlan plan, Packed packed, std::vector<Tensor> constants, int taken)
      : Instance(needs_from_plan(plan)),
        taken_(taken),
        product_(std::move(product)),
        plan_(plan),
        packed_(std::move(packed)),
        constants_(std::move(constants)) {}
  bool may_take(size_t output, size_t input) const override {
    return output == 0 && taken_ >= 0 && input == static_cast<size_t>(taken_);
  }
  void run_task(int, int64_t task, const Args& args) const override {
    const cpu::GemmArgs a = product_.args(args, packed_ ? packed_floats(packed_) : nullptr, constants_);
    cpu::run_task(plan_, a, task, reinterpret_cast<float*>(args.scratch));
  }

 private:
  int taken_;
  Product product_;
  GemmPlan plan_;
  Packed packed_;
  std::vector<Tensor> constants_;
};

struct Planned {
  Product product;
  GemmPlan plan;
};
Result<Planned> planned(const Problem& p, std::string_view config, const Target& target) {
  PERI_ASSIGN(const int64_t rows, setting(gemm_f32_entry.kernel, config, "rows"));
  PERI_ASSIGN(const int64_t panels, setting(gemm_f32_entry.kernel, config, "panels"));
  for (const ir::Value* v : p.graph->inputs)
    if (!v->type.layout.row_major()) return invalid("takes row-major tensors only");
  PERI_ASSIGN(Product s, read_product(p));
  PERI_ASSIGN(const auto isa, best_isa(target));
  const GemmPlan plan = plan_gemm(s.shape, isa, {rows, panels}, target.threads);
  return Planned{std::move(s), plan};
}

Result<Needs> needs(const Problem& p, std::string_view config, const Target& target) {
  PERI_ASSIGN(const Planned made, planned(p, config, target));
  return needs_from_plan(made.plan);
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_ASSIGN(Planned made, planned(p, config, *c.target));
  Product& s = made.product;
  const auto isa = made.plan.isa;
  Packed packed;
  if (s.shape.b_form == BForm::kPacked) {
    PERI_TRY(pack_once(c, "", packed_b_floats(s.shape.k, s.shape.n, isa), [&](float* to) {
      pack_b(c.constants[static_cast<size_t>(s.b)].as<float>().data(), s.b_transposed ? s.shape.k : s.shape.n,
             s.b_transposed, s.shape.k, s.shape.n, isa, to);
    }));
    packed = *c.packed;
  }
  std::vector<Tensor> constants = c.constants.all_but({packed ? s.b : -1});
  const int take = taken(p, s, made.plan);
  return std::unique_ptr<Instance>(
      std::make_unique<GemmInstance>(std::move(s), made.plan, std::move(packed), std::move(constants), take));
}
}  // namespace

const Entry gemm_f32_entry{{
    .name = "gemm_f32",
    .version = 1,
    .provider = "peri",
    .takes = "float32 matrix products, constant right sides packed once, with bias, residual and activation",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs,
    .tunables = {{"rows", "rows of the result that a task computes", {64, 32, 16}},
                 {"panels", "panels of columns that a task computes", {1, 2, 4, 8}}},
    .takes_constants = true,
}};

}  // namespace peri::kernels
