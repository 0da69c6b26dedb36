// Kernel matmul_bytes: products of bytes, exact, as int32, as float32 with scales, bias and activation, or rounded to
// bytes. A constant right side is packed once, another one at each run.
#include <algorithm>

#include "kernels/cpu/integer/matched.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/entry.hpp"
#include "kernels/weights/packed.hpp"

namespace peri::kernels {
namespace {
using cpu::integer::Dot;
using cpu::integer::Fixed;
using cpu::integer::known;
using cpu::integer::Loops;
using cpu::integer::loops_of;
using cpu::integer::match_bytes;
using cpu::integer::Matched;
using cpu::integer::offers_of;
using cpu::integer::Operands;
using cpu::integer::pack;
using cpu::integer::pack_panels;
using cpu::integer::packed_bytes;
using cpu::integer::panel_count;
using cpu::integer::Plan;
using cpu::integer::plan_product;
using cpu::integer::read_dot;
using cpu::integer::Shape;
using cpu::integer::To;

// Measured: benchmarks/results/2026-11-23_constants_tasks.md.
constexpr int64_t kPackedBytes = 32768;  // as a task of block code

struct Read {
  Matched m;
  Shape shape;
  bool packs = false;  // the right side is made while running
};

Result<Read> read(const Problem& p) {
  Read r;
  const ir::Node& n = p.anchor();
  PERI_ASSIGN(r.m, match_bytes(p, "matmul_integer", "qlinear_matmul", std::max<size_t>(1, n.out()->type.rank()) - 1));
  const std::vector<int64_t> a = dims_of(*r.m.a), b = dims_of(*r.m.b);
  if (a.size() < 2 || b.size() < 2) return refused("a vector operand");
  int64_t a_images = 1, b_images = 1;
  for (size_t d = 0; d + 2 < a.size(); ++d) a_images *= a[d];
  for (size_t d = 0; d + 2 < b.size(); ++d) b_images *= b[d];
  Shape& s = r.shape;
  s.k = a.back();
  s.n = b.back();
  s.m = a[a.size() - 2];
  s.to = r.m.to;
  s.makes_rows = r.m.a_signed;
  Tensor keep;
  r.packs = !r.m.b->constant && !(r.m.b_input >= 0 && p.constant[static_cast<size_t>(r.m.b_input)]);
  if (b_images == 1 && b.size() <= a.size()) {
    s.m *= a_images;
  } else {
    if (a.size() != b.size() || !std::equal(a.begin(), a.end() - 2, b.begin()))
      return refused("batch dimensions that broadcast");
    if (!r.packs) return refused("a constant right side for each product");
    if (s.to == To::kFloats && !r.m.epilogue.ops.empty()) return refused("steps behind a batched product");
    s.images = a_images;
  }
  if (s.m < 1 || s.n < 1 || s.k < 1 || s.images < 1) return refused("an empty product");
  return r;
}

// Bytes of an image's packed right side.
int64_t bytes_of_an_image(const Plan& plan) { return (packed_bytes(plan.shape.k, plan.shape.n) + 63) / 64 * 64; }
// Tasks that pack it, each some tens of thousands of bytes.
int64_t parts_of_an_image(const Plan& plan) {
  return std::clamp<int64_t>(plan.shape.k * plan.shape.n / kPackedBytes, 1, panel_count(plan.shape.n));
}
Needs needs_from_plan(const Plan& plan, bool packs) {
  if (!packs) return needs_of_tasks(plan.tasks, plan.scratch);
  return {static_cast<size_t>(plan.shape.images * bytes_of_an_image(plan)),
          plan.scratch,
          {plan.shape.images * parts_of_an_image(plan), plan.tasks},
          {}};
}

class MatmulBytes final : public Instance {
 public:
  MatmulBytes(Read r, Plan plan, Fixed fixed, Packed packed)
      : Instance(needs_from_plan(plan, r.packs)),
        r_(std::move(r)),
        plan_(plan),
        fixed_(std::move(fixed)),
        packed_(std::move(packed)) {}
  void run_task(int phase, int64_t task, const Args& args) const override {
    const Shape& s = plan_.shape;
    if (r_.packs && phase == 0) {
      const int64_t image = task / parts(), part = task % parts(), panels = panel_count(s.n);
      return pack_panels(bytes(args, r_.m.b_input) + image * s.k * s.n, s.n, !r_.m.b_signed, s.k, s.n,
                         panels * part / parts(), panels * (part + 1) / parts(), args.workspace + image * each());
    }
    const uint8_t* const a = bytes(args, r_.m.a_input);
    const Loops& loops = loops_of(plan_.isa);
    const auto flipped = [&](int64_t image, int64_t row, int64_t rows, uint8_t* to, int64_t ld) {
      for (int64_t r = 0; r < rows; ++r) loops.flip(a + ((image * s.m) + row + r) * s.k, to + r * ld, s.k);
    };
    Operands with{.make = flipped};
    with.a = a;
    with.a_step = s.m * s.k;
    with.b = r_.packs ? args.workspace : packed_as<std::byte>(packed_);
    with.b_step = r_.packs ? each() : 0;
    with.ldy = s.n;
    with.y_step = s.m * s.n;
    cpu::Epilogue epilogue;
    fixed_.bind(args, &with, &epilogue);
    cpu::integer::run_task(plan_, with, task, args.scratch);
  }

 private:
  static const uint8_t* bytes(const Args& args, int input) {
    return static_cast<const uint8_t*>(args.in[static_cast<size_t>(input)]);
  }
  int64_t parts() const { return parts_of_an_image(plan_); }
  int64_t each() const { return bytes_of_an_image(plan_); }
  Read r_;
  Plan plan_;
  Fixed fixed_;
  Packed packed_;
};

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return offers_of(p, target);
}

struct Planned {
  Read r;
  Fixed fixed;
  Plan plan;
};
Result<Planned> planned(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Dot dot, read_dot(config, *c.target));
  PERI_ASSIGN(Read r, read(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  PERI_ASSIGN(Fixed fixed, Fixed::make(p, r.m, r.shape.n, r.shape.k, c));
  r.shape.row_sums = fixed.row_sums();
  const Plan plan = plan_product(r.shape, dot, isa);
  return Planned{std::move(r), std::move(fixed), plan};
}

Result<Needs> needs(const Problem& p, std::string_view config, const Target& target) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Read r, read(p));
  PERI_TRY(check_zero_known(p, r.m));
  const std::vector<Tensor> none(p.graph->inputs.size());
  PERI_ASSIGN(const Planned made, planned(p, config, {none, nullptr, &target}));
  return needs_from_plan(made.plan, made.r.packs);
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_ASSIGN(Planned made, planned(p, config, c));
  Read& r = made.r;
  Packed packed;
  if (!r.packs) {
    Tensor keep;
    PERI_TRY(pack_bytes_once(c, "bytes", packed_bytes(r.shape.k, r.shape.n), [&](std::byte* to) {
      const Tensor* const w = known(p, r.m.b, c, &keep);
      pack(static_cast<const uint8_t*>(w->data()), r.shape.n, !r.m.b_signed, r.shape.k, r.shape.n, to);
    }));
    packed = *c.packed;
  }
  return std::unique_ptr<Instance>(
      std::make_unique<MatmulBytes>(std::move(r), made.plan, std::move(made.fixed), std::move(packed)));
}
}  // namespace

extern const Entry matmul_bytes_entry;
const Entry matmul_bytes_entry{{
    .name = "matmul_bytes",
    .version = 2,
    .provider = "peri",
    .takes =
        "products of u8 and i8 (matmul_integer, qlinear_matmul), with scales, bias and activation in float32 behind "
        "sums, and a clip and a sum with bytes or a bias behind bytes",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs,
    .samples =
        {"graph { input x: u8[37,83]; const w: i8[83,83] = seeded(40, 1); y = matmul_integer(x, w); output y }",
         "graph { input x: i8[3,21,130]; const z: i8[] = [-7]; const w: u8[130,70] = seeded(60, 1); const v: u8[] = "
         "[90]; y = matmul_integer(x, w, z, v); output y }",
         "graph { input x: u8[70,192]; const z: u8[] = [7]; const w: i8[192,150] = seeded(60, 1); input s: f32[]; "
         "const "
         "b: f32[150] = seeded(0.5, 2); a = matmul_integer(x, w, z); f = cast(a) {to=1}; g = mul(f, s); h = add(g, b); "
         "y = relu(h); output y }",
         "graph { input x: u8[37,60]; const s: f32[] = [0.02]; const z: u8[] = [120]; const w: i8[60,150] = seeded(90, "
         "1); const t: f32[] = [0.01]; const v: i8[] = [0]; const q: f32[] = [0.05]; const r: u8[] = [110]; const c: "
         "f32[150] = seeded(2, 2); const p: f32[] = [0.04]; const m: u8[] = [90]; a = qlinear_matmul(x, s, z, w, t, v, "
         "q, r); b = from_bytes(a, q, r); d = add(b, c); y = to_bytes(d, p, m); output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
