// Kernel recurrent_f32: RNN, GRU, LSTM in float32. The inputs' products of all steps are one GEMM; those of a state are
// one per block of units, with its gates' rows of R packed next to each other: once, or by each run that brings them.
#include <algorithm>

#include "kernels/cpu/cell/walk.hpp"
#include "kernels/cpu/gemm/gemm.hpp"
#include "kernels/weights/packed.hpp"

namespace peri::kernels {
namespace {
namespace cell = cpu::cell;
using cell::Shape;
using cpu::GemmArgs;
using cpu::GemmPlan;
using cpu::Isa;

// Measured: benchmarks/results/2026-11-22_constants_more.md and benchmarks/results/2026-11-23_constants_rest.md.
constexpr int64_t kTaskProducts = 1 << 16, kMaxTasks = 16;
constexpr int64_t kPackColumns = 256;  // columns of W that are packed at a time: whole panels

Result<Shape> read(const Problem& p) {
  Shape s;
  PERI_TRY(cell::read_kind(p.anchor(), &s));
  s.units = cell::units_of(s, kTaskProducts, kMaxTasks);
  PERI_TRY(cell::read_cell(p, &s));
  return s;
}

// Offsets in the packed weights of a cell: for each direction W, then the blocks of R (all gates of the block's units,
// gate after gate; for a GRU that scales the state first z and r, then h), then the inputs' bias, all gates.
struct Form {
  const Shape& s;
  Isa isa;
  int64_t w() const { return cpu::packed_b_floats(s.input, s.sums(), isa); }
  int64_t r(int64_t gates, int64_t block) const {
    return cpu::packed_b_floats(s.hidden, gates * s.width_of(block), isa);
  }
  int64_t r_block(int64_t block) const { return s.two_phases() ? r(2, block) + r(1, block) : r(s.gates, block); }
  int64_t all_r() const { return (s.blocks() - 1) * r_block(0) + r_block(s.blocks() - 1); }
  int64_t bias() const { return (s.sums() + 15) / 16 * 16; }
  int64_t direction() const { return w() + all_r() + bias(); }
  int64_t of_w(int64_t d) const { return d * direction(); }
  int64_t of_r(int64_t d, int64_t block, bool second) const {
    return of_w(d) + w() + block * r_block(0) + (second ? r(2, block) : 0);
  }
  int64_t of_bias(int64_t d) const { return of_w(d) + w() + all_r(); }
  // Packing: parts of W with the bias, then the blocks of R.
  int64_t w_parts() const { return (s.sums() + kPackColumns - 1) / kPackColumns; }
  int64_t parts() const { return w_parts() + s.blocks(); }  // of a direction
  int64_t row_floats() const { return (s.two_phases() ? 2 : s.gates) * s.width_of(0) * s.hidden; }
};

struct Weights {
  const float *w = nullptr, *r = nullptr, *bias = nullptr;
};

struct Rows {
  int64_t block, first_gate, gates;
};
// `rows`: f.row_floats() to work in.
void pack_rows(const Form& f, const float* r, const Rows& of, float* rows, float* to) {
  const Shape& s = f.s;
  const int64_t width = s.width_of(of.block), units = s.units_of(of.block);
  for (int64_t g = 0; g < of.gates; ++g) {
    float* const gate = rows + g * width * s.hidden;
    std::copy_n(r + ((of.first_gate + g) * s.hidden + of.block * s.units) * s.hidden, units * s.hidden, gate);
    std::fill(gate + units * s.hidden, gate + width * s.hidden, 0.0F);
  }
  cpu::pack_b(rows, s.hidden, true, s.hidden, of.gates * width, f.isa, to);
}

void pack_bias(const Form& f, const float* bias, int64_t d, float* to) {
  const Shape& s = f.s;
  std::fill_n(to, f.bias(), 0.0F);
  if (!bias) return;
  const float *of_w = bias + d * 2 * s.sums(), *of_r = of_w + s.sums();
  for (int64_t j = 0; j < s.sums(); ++j)
    to[j] = s.kind == cell::Kind::kGru && j >= 2 * s.hidden ? of_w[j] : of_w[j] + of_r[j];
}

// Part `part` of f.parts() of a direction.
void pack_part(const Form& f, const Weights& from, int64_t d, int64_t part, float* rows, float* to) {
  const Shape& s = f.s;
  if (part == 0) pack_bias(f, from.bias, d, to + f.of_bias(d));
  if (part < f.w_parts()) {
    const int64_t first = part * kPackColumns, n = std::min(kPackColumns, s.sums() - first);
    const float* const w = from.w + (d * s.sums() + first) * s.input;
    return cpu::pack_b(w, s.input, true, s.input, n, f.isa, to + f.of_w(d) + first * s.input);
  }
  const int64_t block = part - f.w_parts();
  const float* const r = from.r + d * s.sums() * s.hidden;
  pack_rows(f, r, {block, 0, s.two_phases() ? 2 : s.gates}, rows, to + f.of_r(d, block, false));
  if (s.two_phases()) pack_rows(f, r, {block, 2, 1}, rows, to + f.of_r(d, block, true));
}

// The products of a cell: those of inputs, of as many rows as are multiplied together and of the last ones; and those
// of states: of the second phase or not, of the last block or not.
struct Products {
  GemmPlan inputs[2], states[2][2];
};

class CellInstance final : public cell::Walk {
 public:
  // `packed` null: by each run.
  CellInstance(const Shape& s, Isa isa, Packed packed, std::vector<Source> ports, int64_t steps)
      : Walk(s, isa, std::move(ports), steps, cut_of(s, isa, !packed)),
        packed_(std::move(packed)),
        products_(plan(s, isa)) {}
  // `packs`: each run does.
  static cell::WalkCut cut_of(const Shape& s, Isa isa, bool packs) {
    const Products products = plan(s, isa);
    const Form f{s, isa};
    const int64_t packing = packs ? f.row_floats() : 0;
    cell::WalkCut out;
    out.scratch =
        static_cast<size_t>(std::max(packing, gemm_floats(products) + s.batch * width(s, false, 0))) * sizeof(float);
    out.pack_floats = packs ? s.directions * f.direction() : 0;
    out.pack_tasks = packs ? s.directions * f.parts() : 0;
    for (const size_t last : {0, 1}) out.input_tasks[last] = products.inputs[last].tasks;
    return out;
  }

 private:
  static Products plan(const Shape& s, Isa isa) {
    Products out;
    for (const bool last : {false, true})
      out.inputs[last] = cpu::plan_gemm({.m = last ? s.last_rows() : s.most_rows(), .n = s.sums(), .k = s.input}, isa);
    for (const bool second : {false, true}) {
      for (const bool last : {false, true}) {
        // In one task, which is run by the block's own.
        const int64_t n = width(s, second, last ? s.blocks() - 1 : 0);
        out.states[second][last] = cpu::plan_gemm({.m = s.batch, .n = n, .k = s.hidden}, isa, {.panels = n});
      }
    }
    return out;
  }
  Form form() const { return {shape(), isa()}; }
  void pack(int64_t task, float* to, const Args& args) const override {
    const Form f = form();
    const Weights from = {port(cell::kW, args), port(cell::kR, args), port(cell::kBias, args)};
    pack_part(f, from, task / f.parts(), task % f.parts(), reinterpret_cast<float*>(args.scratch), to);
  }
  const float* weights(const Args& args) const {
    return packed_ ? packed_floats(packed_) : reinterpret_cast<const float*>(args.workspace);
  }
  static int64_t gemm_floats(const Products& products) {
    int64_t most = std::max(products.inputs[0].scratch_floats, products.inputs[1].scratch_floats);
    for (const auto& plans : products.states)
      for (const GemmPlan& plan : plans) most = std::max(most, plan.scratch_floats);
    return rounded(most);
  }
  void multiply_inputs(int64_t d, int64_t part, Rows rows, float* to, const Args& args) const override {
    const Form f = form();
    GemmArgs g;
    g.a = port(cell::kX, args) + rows.first * shape().input;
    g.lda = shape().input;
    g.b = weights(args) + f.of_w(d);
    g.c = to;
    g.ldc = shape().sums();
    cpu::add_bias(g.epilogue, weights(args) + f.of_bias(d));
    const GemmPlan& plan = products_.inputs[rows.count != shape().most_rows()];
    cpu::run_task(plan, g, part, reinterpret_cast<float*>(args.scratch));
  }
  const float* multiply_states(int64_t d, int64_t block, bool second, const float* states,
                               const Args& args) const override {
    const GemmPlan& plan = products_.states[second][block == shape().blocks() - 1];
    float* const scratch = reinterpret_cast<float*>(args.scratch);
    GemmArgs g;
    g.a = states;
    g.lda = shape().hidden;
    g.b = weights(args) + form().of_r(d, block, second);
    g.c = scratch + gemm_floats(products_);
    g.ldc = plan.shape.n;
    for (int64_t k = 0; k < plan.tasks; ++k) cpu::run_task(plan, g, k, scratch);
    return g.c;
  }

  Packed packed_;
  Products products_;
};

// Whether all that is packed is.
bool known(const Problem& p) {
  return cell::is_constant(p, cell::kW) && cell::is_constant(p, cell::kR) && cell::is_constant(p, cell::kBias);
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_ASSIGN(const Shape s, read(p));
  PERI_TRY(cpu::best_isa(target));
  return cell::with_whole_directions({row_major_offer(p, target)}, s);
}

struct Planned {
  Shape shape;
  Isa isa;
  int64_t steps;
};
Result<Planned> planned(const Problem& p, std::string_view config, const Target& target) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const auto steps, cell::read_steps(config));
  if (!steps.second.empty()) return invalid("unknown configuration '%s'", std::string(config).c_str());
  PERI_ASSIGN(const Shape s, read(p));
  PERI_ASSIGN(const Isa isa, cpu::best_isa(target));
  return Planned{s, isa, steps.first};
}

Result<Needs> needs(const Problem& p, std::string_view config, const Target& target) {
  PERI_ASSIGN(const Planned made, planned(p, config, target));
  return cell::Walk::needs_of(made.shape, made.steps, CellInstance::cut_of(made.shape, made.isa, !known(p)));
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_ASSIGN(const Planned made, planned(p, config, *c.target));
  const Shape& s = made.shape;
  const Isa isa = made.isa;
  const ir::Node& n = p.anchor();
  std::vector<Source> ports(cell::kPorts);
  const auto keep = [&](std::initializer_list<size_t> some) {
    for (const size_t port : some) ports[port] = Source::of(p, n.in(port), c.constants);
  };
  keep({cell::kX, cell::kBias, cell::kLengths, cell::kInitialH, cell::kInitialC, cell::kPeephole});
  if (!known(p)) {
    keep({cell::kW, cell::kR});
    return std::unique_ptr<Instance>(std::make_unique<CellInstance>(s, isa, nullptr, std::move(ports), made.steps));
  }
  const auto weight = [&](size_t port) { return Source::of(p, n.in(port), c.constants).f32({}); };
  const Form form{s, isa};
  PERI_TRY(pack_once(c, "", form.direction() * s.directions, [&](float* to) {
    const Weights from = {weight(cell::kW), weight(cell::kR), weight(cell::kBias)};
    std::vector<float> rows(static_cast<size_t>(form.row_floats()));
    for (int64_t k = 0; k < s.directions * form.parts(); ++k)
      pack_part(form, from, k / form.parts(), k % form.parts(), rows.data(), to);
  }));
  return std::unique_ptr<Instance>(std::make_unique<CellInstance>(s, isa, *c.packed, std::move(ports), made.steps));
}
}  // namespace

extern const Entry recurrent_f32_entry;
const Entry recurrent_f32_entry{{
    .name = "recurrent_f32",
    .version = 1,
    .provider = "peri",
    .takes = "RNN, GRU and LSTM of f32",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs,
    // Those of the ops are one block of units each.
    .samples =
        {"graph { input x: f32[3,2,8]; const w: f32[2,800,8] = seeded(0.3, 1); const r: f32[2,800,200] = "
         "seeded(0.07, 2); const b: f32[2,1600] = seeded(0.2, 3); const n: i32[2] = [2, 3]; input s: f32[2,2,200]; "
         "input m: f32[2,2,200]; const p: f32[2,600] = seeded(0.3, 4); y, h, c = lstm(x, w, r, b, n, s, m, p) "
         "{direction=\"bidirectional\"}; output y; output h; output c }",
         "graph { input x: f32[5,3,8]; const w: f32[1,660,8] = seeded(0.3, 1); const r: f32[1,660,220] = "
         "seeded(0.07, 2); const b: f32[1,1320] = seeded(0.2, 3); y, h = gru(x, w, r, b) "
         "{linear_before_reset=1}; output y; output h }",
         "graph { input x: f32[3,5,8]; const w: f32[1,660,8] = seeded(0.3, 1); const r: f32[1,660,220] = "
         "seeded(0.07, 2); const b: f32[1,1320] = seeded(0.2, 3); const n: i32[3] = [5, 0, 3]; y, h = gru(x, w, r, "
         "b, n) {direction=\"reverse\", layout=1}; output y; output h }",
         "graph { input x: f32[4,2,8]; const w: f32[1,400,8] = seeded(0.3, 1); const r: f32[1,400,400] = "
         "seeded(0.05, 2); y, h = rnn(x, w, r) {activations=strings[\"Relu\"], clip=0.5}; output h }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
