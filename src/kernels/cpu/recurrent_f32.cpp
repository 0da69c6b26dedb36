// Kernel recurrent_f32: RNN, GRU, LSTM in float32. The inputs' products of all steps are one GEMM; then each step is a
// phase, whose tasks each make a block of units: their gates' rows of R, packed beside each other, by the state, and
// the cell on the sums while they are in cache.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/cell/cell.hpp"
#include "kernels/cpu/gemm/gemm.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/epilogue_match.hpp"
#include "kernels/weights/packed.hpp"

namespace peri::kernels {
namespace {
namespace cell = cpu::cell;
using cpu::GemmArgs;
using cpu::GemmPlan;
using cpu::Isa;

enum Port { kX, kW, kR, kBias, kLengths, kInitialH, kInitialC, kPeephole };

struct Shape {
  cell::Kind kind = cell::Kind::kRnn;
  int64_t gates = 1, directions = 1, steps = 0, batch = 0, input = 0, hidden = 0;
  bool batch_first = false, first_reversed = false, coupled = false;
  float clip = std::numeric_limits<float>::infinity();
  cell::Function functions[2][3] = {};
  int outputs[3] = {-1, -1, -1};  // the place of y, y_h, y_c among the results; -1: not wanted

  int64_t sums() const { return gates * hidden; }
  bool two_phases() const { return kind == cell::Kind::kGruGates; }
  int64_t phases_a_step() const { return two_phases() ? 2 : 1; }
  // Of a block of units. Of the cell alone, so that packed weights serve every run.
  int64_t units() const {
    // Measured: benchmarks/results/2026-11-22_constants_more.md and
    // benchmarks/results/2026-11-23_constants_rest.md.
    constexpr int64_t kTaskProducts = 1 << 16, kMaxTasks = 16, kVector = 16;
    const int64_t tasks = std::clamp<int64_t>(sums() * hidden / kTaskProducts, 1, kMaxTasks);
    return ((hidden + tasks - 1) / tasks + kVector - 1) / kVector * kVector;
  }
  int64_t blocks() const { return (hidden + units() - 1) / units(); }
  int64_t units_of(int64_t block) const { return std::min(units(), hidden - block * units()); }
  int64_t row_of(int64_t b, int64_t t) const { return batch_first ? b * steps + t : t * batch + b; }
  int64_t state_of(int64_t d, int64_t b) const { return (batch_first ? b * directions + d : d * batch + b) * hidden; }
  int64_t y_of(int64_t d, int64_t b, int64_t t) const {
    return (batch_first ? (b * steps + t) * directions + d : (t * directions + d) * batch + b) * hidden;
  }
};

Result<cell::Function> function_of(std::string_view name) {
  std::string low(name);
  std::transform(low.begin(), low.end(), low.begin(), [](unsigned char c) { return std::tolower(c); });
  if (low == "tanh") return cell::Function::kTanh;
  if (low == "sigmoid") return cell::Function::kSigmoid;
  if (low == "relu") return cell::Function::kRelu;
  return refused("takes Tanh, Sigmoid and Relu, not %s", std::string(name).c_str());
}

Status read_functions(const ir::Node& n, Shape* s) {
  const bool rnn = s->kind == cell::Kind::kRnn, lstm = s->kind == cell::Kind::kLstm;
  const size_t count = rnn ? 1 : lstm ? 3 : 2;
  const auto given = n.attrs.find("activations");
  const auto* names = given == n.attrs.end() ? nullptr : &std::get<std::vector<std::string>>(given->second);
  if (names && names->size() != count * static_cast<size_t>(s->directions)) return refused("activations do not fit");
  for (size_t d = 0; d < static_cast<size_t>(s->directions); ++d)
    for (size_t k = 0; k < count; ++k) {
      const std::string_view fallback = rnn || k > 0 ? "tanh" : "sigmoid";
      PERI_ASSIGN(s->functions[d][k], function_of(names ? std::string_view((*names)[d * count + k]) : fallback));
    }
  return Ok{};
}

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  Shape s;
  if (n.op == "rnn") {
    s.kind = cell::Kind::kRnn;
  } else if (n.op == "gru") {
    s.kind = n.i("linear_before_reset") != 0 ? cell::Kind::kGru : cell::Kind::kGruGates;
    s.gates = 3;
  } else if (n.op == "lstm") {
    s.kind = cell::Kind::kLstm;
    s.gates = 4;
  } else {
    return refused("not a recurrent cell");
  }
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  if (n.in(kX)->type.dtype != DType::kF32) return refused("takes f32 only");
  for (const int port : {kW, kR, kBias, kPeephole}) {
    const ir::Value* v = n.in(static_cast<size_t>(port));
    const int at = v && !v->constant ? input_index(*p.graph, v) : -1;
    if (v && !v->constant && (at < 0 || !p.constant[static_cast<size_t>(at)]))
      return refused("takes constant weights only");
  }
  const std::vector<int64_t> x = dims_of(*n.in(kX)), r = dims_of(*n.in(kR));
  s.batch_first = n.i("layout") != 0;
  s.steps = x[s.batch_first];
  s.batch = x[!s.batch_first];
  s.input = x[2];
  s.hidden = r[2];
  s.directions = r[0];
  if (s.steps * s.batch * s.input * s.hidden == 0) return refused("an empty tensor");
  s.first_reversed = n.s("direction", "forward") == "reverse";
  s.coupled = n.i("input_forget") != 0;
  if (const double clip = n.f("clip", 0); clip > 0) s.clip = static_cast<float>(clip);
  PERI_TRY(read_functions(n, &s));
  for (size_t k = 0; k < n.outputs.size() && k < 3; ++k)
    for (size_t o = 0; o < p.graph->outputs.size(); ++o)
      if (p.graph->outputs[o] == n.outputs[k]) s.outputs[k] = static_cast<int>(o);
  return s;
}

// Where the packed weights of a cell stand: of each direction W, then the blocks of R (all gates of the block's units,
// gate after gate; of a GRU that scales the state first z and r, then h), then the inputs' bias, all gates.
struct Form {
  const Shape& s;
  Isa isa;
  int64_t w() const { return cpu::packed_b_floats(s.input, s.sums(), isa); }
  int64_t r(int64_t gates) const { return cpu::packed_b_floats(s.hidden, gates * s.units(), isa); }
  int64_t r_block() const { return s.two_phases() ? r(2) + r(1) : r(s.gates); }
  int64_t bias() const { return (s.sums() + 15) / 16 * 16; }
  int64_t direction() const { return w() + s.blocks() * r_block() + bias(); }
  int64_t of_w(int64_t d) const { return d * direction(); }
  int64_t of_r(int64_t d, int64_t block, bool second) const {
    return of_w(d) + w() + block * r_block() + (second ? r(2) : 0);
  }
  int64_t of_bias(int64_t d) const { return of_w(d) + w() + s.blocks() * r_block(); }
};

struct Weights {
  const float *w = nullptr, *r = nullptr, *bias = nullptr;
};

void pack_rows(const Form& f, const float* r, int64_t block, int64_t first_gate, int64_t gates, float* to) {
  const Shape& s = f.s;
  std::vector<float> rows(static_cast<size_t>(gates * s.units() * s.hidden), 0.0F);
  for (int64_t g = 0; g < gates; ++g)
    std::copy_n(r + ((first_gate + g) * s.hidden + block * s.units()) * s.hidden, s.units_of(block) * s.hidden,
                rows.begin() + g * s.units() * s.hidden);
  cpu::pack_b(rows.data(), s.hidden, true, s.hidden, gates * s.units(), f.isa, to);
}

void pack_all(const Form& f, const Weights& from, float* to) {
  const Shape& s = f.s;
  for (int64_t d = 0; d < s.directions; ++d) {
    cpu::pack_b(from.w + d * s.sums() * s.input, s.input, true, s.input, s.sums(), f.isa, to + f.of_w(d));
    const float* r = from.r + d * s.sums() * s.hidden;
    for (int64_t block = 0; block < s.blocks(); ++block) {
      pack_rows(f, r, block, 0, s.two_phases() ? 2 : s.gates, to + f.of_r(d, block, false));
      if (s.two_phases()) pack_rows(f, r, block, 2, 1, to + f.of_r(d, block, true));
    }
    float* bias = to + f.of_bias(d);
    std::fill_n(bias, f.bias(), 0.0F);
    if (!from.bias) continue;
    const float *of_w = from.bias + d * 2 * s.sums(), *of_r = of_w + s.sums();
    for (int64_t j = 0; j < s.sums(); ++j)
      bias[j] = s.kind == cell::Kind::kGru && j >= 2 * s.hidden ? of_w[j] : of_w[j] + of_r[j];
  }
}

class CellInstance final : public Instance {
 public:
  CellInstance(Shape shape, Isa isa, Packed packed, std::vector<Source> ports)
      : s_(shape), isa_(isa), packed_(std::move(packed)), ports_(std::move(ports)) {
    inputs_ = cpu::plan_gemm({.m = s_.steps * s_.batch, .n = s_.sums(), .k = s_.input}, isa_);
    first_ = cpu::plan_gemm({.m = s_.batch, .n = (s_.two_phases() ? 2 : s_.gates) * s_.units(), .k = s_.hidden}, isa_);
    second_ = cpu::plan_gemm({.m = s_.batch, .n = s_.units(), .k = s_.hidden}, isa_);
  }
  size_t workspace_bytes() const override { return static_cast<size_t>(of_direction(s_.directions)) * sizeof(float); }
  size_t scratch_bytes() const override {
    const int64_t gemm = std::max({inputs_.scratch_floats, first_.scratch_floats, second_.scratch_floats});
    return static_cast<size_t>(rounded(gemm) + s_.batch * first_.shape.n) * sizeof(float);
  }
  int phases() const override { return static_cast<int>(1 + s_.steps * s_.phases_a_step()); }
  int64_t tasks(int phase) const override { return s_.directions * (phase == 0 ? inputs_.tasks + 1 : s_.blocks()); }
  void run_task(int phase, int64_t task, const Args& args) const override {
    if (phase > 0) return step((phase - 1) / s_.phases_a_step(), (phase - 1) % s_.phases_a_step() == 1, task, args);
    const int64_t d = task / (inputs_.tasks + 1), part = task % (inputs_.tasks + 1);
    if (part == inputs_.tasks) return begin(d, args);
    const Form f{s_, isa_};
    GemmArgs g;
    g.a = ports_[kX].f32(args);
    g.lda = s_.input;
    g.b = packed_floats(packed_) + f.of_w(d);
    g.c = products(d, args);
    g.ldc = s_.sums();
    cpu::add_bias(g.epilogue, packed_floats(packed_) + f.of_bias(d));
    cpu::run_task(inputs_, g, part, reinterpret_cast<float*>(args.scratch));
  }

 private:
  static int64_t rounded(int64_t floats) { return (floats + 15) / 16 * 16; }
  // Of a direction: products of the inputs, two states, the memory, the scaled state.
  int64_t state_floats() const { return rounded(s_.batch * s_.hidden); }
  int64_t of_direction(int64_t d) const { return d * (rounded(s_.steps * s_.batch * s_.sums()) + 4 * state_floats()); }
  float* products(int64_t d, const Args& args) const {
    return reinterpret_cast<float*>(args.workspace) + of_direction(d);
  }
  float* state(int64_t d, int64_t k, const Args& args) const {
    return products(d, args) + rounded(s_.steps * s_.batch * s_.sums()) + k * state_floats();
  }
  float* result(int k, const Args& args) const {
    return s_.outputs[k] < 0 ? nullptr : static_cast<float*>(args.out[static_cast<size_t>(s_.outputs[k])]);
  }
  int64_t length(int64_t b, const Args& args) const {
    const auto* lengths = static_cast<const int32_t*>(ports_[kLengths].data(args));
    return lengths ? std::clamp<int64_t>(lengths[b], 0, s_.steps) : s_.steps;
  }

  // States as given, else zero.
  void begin(int64_t d, const Args& args) const {
    const float *h = ports_[kInitialH].f32(args), *c = ports_[kInitialC].f32(args);
    for (int64_t b = 0; b < s_.batch; ++b) {
      for (const auto& [from, to] : {std::pair(h, state(d, 0, args)), std::pair(c, state(d, 2, args))}) {
        if (from)
          std::copy_n(from + s_.state_of(d, b), s_.hidden, to + b * s_.hidden);
        else
          std::fill_n(to + b * s_.hidden, s_.hidden, 0.0F);
      }
    }
  }

  void multiply(const GemmPlan& plan, const float* a, const float* b, float* c, const Args& args) const {
    GemmArgs g;
    g.a = a;
    g.lda = s_.hidden;
    g.b = b;
    g.c = c;
    g.ldc = plan.shape.n;
    for (int64_t k = 0; k < plan.tasks; ++k) cpu::run_task(plan, g, k, reinterpret_cast<float*>(args.scratch));
  }

  // Block `task` of all sequences of a direction at step `at`.
  void step(int64_t at, bool second, int64_t task, const Args& args) const {
    const int64_t d = task / s_.blocks(), block = task % s_.blocks(), from = block * s_.units();
    const Form f{s_, isa_};
    const GemmPlan& plan = second ? second_ : first_;
    const int64_t gemm = std::max({inputs_.scratch_floats, first_.scratch_floats, second_.scratch_floats});
    float* product = reinterpret_cast<float*>(args.scratch) + rounded(gemm);
    const float* old = state(d, at % 2, args);
    multiply(plan, second ? state(d, 3, args) : old, packed_floats(packed_) + f.of_r(d, block, second), product, args);
    cell::Row row;
    row.kind = second ? cell::Kind::kGruState : s_.kind;
    row.n = s_.units_of(block);
    row.hidden = s_.hidden;
    row.width = s_.units();
    row.coupled = s_.coupled;
    row.clip = s_.clip;
    std::copy_n(s_.functions[d], 3, row.functions);
    if (const float* p = ports_[kPeephole].f32(args)) row.peephole = p + d * 3 * s_.hidden + from;
    if (const float* b = ports_[kBias].f32(args); b && s_.kind == cell::Kind::kGru)
      row.state_bias = b + d * 2 * s_.sums() + s_.sums() + 2 * s_.hidden + from;
    for (int64_t b = 0; b < s_.batch; ++b) {
      const int64_t length = this->length(b, args), unit = b * s_.hidden + from;
      float* y = result(0, args);
      row.old_state = old + unit;
      row.state = state(d, (at + 1) % 2, args) + unit;
      row.memory = state(d, 2, args) + unit;
      row.reset = state(d, 3, args) + unit;
      if (at >= length) {
        if (!second && s_.two_phases()) continue;
        std::copy_n(row.old_state, row.n, row.state);
        if (y) std::fill_n(y + s_.y_of(d, b, at) + from, row.n, 0.0F);
      } else {
        const int64_t t = (d == 1 || s_.first_reversed) ? length - 1 - at : at;
        row.pre = products(d, args) + s_.row_of(b, t) * s_.sums() + from;
        row.product = product + b * plan.shape.n;
        row.y = y ? y + s_.y_of(d, b, t) + from : nullptr;
        isa_ == Isa::kAvx512 ? cell::avx512::run(row) : cell::avx2::run(row);
      }
      if (at + 1 < s_.steps || (s_.two_phases() && !second)) continue;
      for (const auto& [last, state] :
           {std::pair(result(1, args), row.state), std::pair(result(2, args), row.memory)}) {
        if (!last) continue;
        float* const to = last + s_.state_of(d, b) + from;
        if (length > 0)
          std::copy_n(state, row.n, to);
        else
          std::fill_n(to, row.n, 0.0F);
      }
    }
  }

  Shape s_;
  Isa isa_;
  Packed packed_;
  std::vector<Source> ports_;
  GemmPlan inputs_, first_, second_;
};

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(cpu::best_isa(target));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  PERI_ASSIGN(const Isa isa, cpu::best_isa(*c.target));
  const ir::Node& n = p.anchor();
  const auto weight = [&](size_t port) { return Source::of(p, n.in(port), c.constants).f32({}); };
  const Form form{s, isa};
  PERI_TRY(pack_once(c, "", form.direction() * s.directions,
                     [&](float* to) { pack_all(form, {weight(kW), weight(kR), weight(kBias)}, to); }));
  std::vector<Source> ports(8);
  for (const size_t port : {kX, kBias, kLengths, kInitialH, kInitialC, kPeephole})
    ports[port] = Source::of(p, n.in(port), c.constants);
  return std::unique_ptr<Instance>(std::make_unique<CellInstance>(s, isa, *c.packed, std::move(ports)));
}
}  // namespace

extern const Entry recurrent_f32_entry;
const Entry recurrent_f32_entry{{
    .name = "recurrent_f32",
    .version = 1,
    .provider = "peri",
    .takes = "RNN, GRU and LSTM of f32 with constant weights and Tanh, Sigmoid or Relu",
    .offer = offer,
    .instantiate = instantiate,
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
