// Kernel recurrent_f64: RNN, GRU, LSTM in float64. A task walks some sequences of a direction; the inputs' products of
// some steps are one product of matrices, the functions of a cell are those of its definition.
#include <algorithm>

#include "kernels/cpu/cell/walk.hpp"
#include "kernels/cpu/typed/products.hpp"
#include "kernels/match/epilogue_match.hpp"
#include "kernels/weights/packed.hpp"
#include "ops/reference/cell.hpp"

namespace peri::kernels {
namespace {
namespace cell = cpu::cell;
namespace typed = cpu::typed;
using cell::Kind;
using cell::Shape;

constexpr int64_t kSequences = 8;  // of a task: the rows of a tile
constexpr int64_t kSteps = 16;     // whose inputs are multiplied together
constexpr int64_t kColumns = typed::kProductColumnBytes / 8;

int64_t up(int64_t v) { return (v + kColumns - 1) / kColumns * kColumns; }

struct Cell {
  Shape shape;
  std::vector<ops::CellFunction> functions;  // of one direction after the other
  double clip = 0;                           // 0: none

  // Packed weights, in doubles: for each direction W, R, and the two biases, each gate in whole panels of columns.
  int64_t gate() const { return up(shape.hidden); }
  int64_t width() const { return shape.gates * gate(); }
  int64_t of_w(int64_t d) const { return d * width() * (shape.input + shape.hidden + 2); }
  int64_t of_r(int64_t d) const { return of_w(d) + width() * shape.input; }
  int64_t of_bias(int64_t d) const { return of_r(d) + width() * shape.hidden; }
  int64_t groups() const { return (shape.batch + kSequences - 1) / kSequences; }
};

Result<Cell> read(const Problem& p) {
  Cell c;
  const ir::Node& n = p.anchor();
  PERI_TRY(cell::read_kind(n, &c.shape));
  PERI_TRY(cell::read_cell(p, &c.shape, DType::kF64));
  PERI_ASSIGN(ops::CellNode read, cell::read_node(n, c.shape));
  c.functions = std::move(read.functions);
  c.clip = read.clip;
  return c;
}

// Rows [hidden][k] of one gate as panels [k][kColumns].
void pack_rows(const Cell& c, const double* rows, int64_t k, double* to) {
  std::fill_n(to, c.gate() * k, 0.0);
  for (int64_t j = 0; j < c.shape.hidden; ++j, rows += k) {
    double* const panel = to + j / kColumns * kColumns * k + j % kColumns;
    for (int64_t i = 0; i < k; ++i) panel[i * kColumns] = rows[i];
  }
}

struct Weights {
  const double *w, *r, *bias;  // bias null: none
};
int64_t pack_parts(const Cell& c) { return c.shape.directions * c.shape.gates; }
// Part `part` of them: a gate of a direction.
void pack_part(const Cell& c, const Weights& from, int64_t part, double* to) {
  const Shape& s = c.shape;
  const int64_t d = part / s.gates, g = part % s.gates;
  pack_rows(c, from.w + part * s.hidden * s.input, s.input, to + c.of_w(d) + g * c.gate() * s.input);
  pack_rows(c, from.r + part * s.hidden * s.hidden, s.hidden, to + c.of_r(d) + g * c.gate() * s.hidden);
  for (const int64_t k : {g, s.gates + g}) {
    double* const bias = to + c.of_bias(d) + k * c.gate();
    std::fill_n(bias, c.gate(), 0.0);
    if (from.bias) std::copy_n(from.bias + (d * 2 * s.gates + k) * s.hidden, s.hidden, bias);
  }
}

struct Ports {
  const double *x, *h, *c, *peephole;
  const int32_t* lengths;
  double* out[3];
};

// Some sequences of a direction.
class Sequences {
 public:
  static int64_t doubles(const Cell& c) {
    const Shape& s = c.shape;
    return kSteps * kSequences * (s.input + c.width()) + kSequences * (c.width() + 4 * s.hidden);
  }
  Sequences(const Cell& c, cpu::Isa isa, const double* packed, const Ports& ports, int64_t task, double* scratch)
      : c_(c),
        s_(c.shape),
        product_((isa == cpu::Isa::kAvx512 ? typed::avx512::kProducts : typed::avx2::kProducts).f64),
        packed_(packed),
        ports_(ports),
        d_(task / c.groups()),
        first_(task % c.groups() * kSequences),
        count_(std::min(kSequences, s_.batch - first_)),
        x_(scratch),
        from_x_(x_ + kSteps * kSequences * s_.input),
        from_h_(from_x_ + kSteps * kSequences * c.width()),
        h_(from_h_ + kSequences * c.width()),
        memory_(h_ + kSequences * s_.hidden),
        reset_(memory_ + kSequences * s_.hidden) {}

  void run() {
    for (int64_t b = 0; b < count_; ++b)
      for (const auto& [from, to] : {std::pair(ports_.h, h_), std::pair(ports_.c, memory_)}) {
        if (from)
          std::copy_n(from + s_.state_of(d_, first_ + b), s_.hidden, to + b * s_.hidden);
        else
          std::fill_n(to + b * s_.hidden, s_.hidden, 0.0);
      }
    for (int64_t at = 0; at < s_.steps; ++at) {
      if (at % kSteps == 0) multiply_inputs(at);
      step(at);
    }
    for (int64_t b = 0; b < count_; ++b)
      for (const auto& [to, from] : {std::pair(ports_.out[1], h_), std::pair(ports_.out[2], memory_)})
        for (int64_t j = 0; to && j < s_.hidden; ++j)
          to[s_.state_of(d_, first_ + b) + j] = length(b) > 0 ? from[b * s_.hidden + j] : 0;
  }

 private:
  int64_t length(int64_t b) const {
    return ports_.lengths ? std::clamp<int64_t>(ports_.lengths[first_ + b], 0, s_.steps) : s_.steps;
  }
  // The step of x that is the sequence's step `at`.
  int64_t place(int64_t b, int64_t at) const { return (d_ == 1 || s_.first_reversed) ? length(b) - 1 - at : at; }
  // Rows of k numbers by gates [gate, gate + gates) of packed weights, to rows of width().
  void multiply(const double* rows, int64_t count, int64_t k, const double* by, int64_t gate, int64_t gates,
                double* to) const {
    for (int64_t column = gate * c_.gate(); column < (gate + gates) * c_.gate(); column += kColumns)
      product_({rows, by + column * k, to + column, count, kColumns, k, k, kColumns, c_.width()});
  }
  void multiply_inputs(int64_t at) {
    const int64_t steps = std::min(kSteps, s_.steps - at);
    for (int64_t k = 0; k < steps; ++k)
      for (int64_t b = 0; b < count_; ++b) {
        double* const row = x_ + (k * count_ + b) * s_.input;
        if (at + k < length(b))
          std::copy_n(ports_.x + s_.row_of(first_ + b, place(b, at + k)) * s_.input, s_.input, row);
        else
          std::fill_n(row, s_.input, 0.0);
      }
    multiply(x_, steps * count_, s_.input, packed_ + c_.of_w(d_), 0, s_.gates, from_x_);
    const double* const bias = packed_ + c_.of_bias(d_);
    for (int64_t row = 0; row < steps * count_; ++row)
      for (int64_t j = 0; j < c_.width(); ++j) from_x_[row * c_.width() + j] += bias[j];
  }
  double function(size_t k, double v) const {
    const ops::CellFunction& f = c_.functions[static_cast<size_t>(d_) * (c_.functions.size() / directions()) + k];
    return f.at(v, f.alpha, f.beta);
  }
  size_t directions() const { return static_cast<size_t>(s_.directions); }
  double clipped(double v) const { return c_.clip > 0 ? std::clamp(v, -c_.clip, c_.clip) : v; }
  // Gate g of unit j.
  double from_h(int64_t b, int64_t g, int64_t j) const {
    const int64_t at = g * c_.gate() + j;
    return from_h_[b * c_.width() + at] + packed_[c_.of_bias(d_) + c_.width() + at];
  }
  double sum(const double* x, int64_t b, int64_t g, int64_t j) const { return x[g * c_.gate() + j] + from_h(b, g, j); }

  void step(int64_t at) {
    const double* const r = packed_ + c_.of_r(d_);
    multiply(h_, count_, s_.hidden, r, 0, s_.two_phases() ? 2 : s_.gates, from_h_);
    const double* const x = from_x_ + at % kSteps * count_ * c_.width();
    if (s_.two_phases()) {
      for (int64_t b = 0; b < count_; ++b)
        for (int64_t j = 0; j < s_.hidden; ++j)
          reset_[b * s_.hidden + j] = function(0, clipped(sum(x + b * c_.width(), b, 1, j))) * h_[b * s_.hidden + j];
      multiply(reset_, count_, s_.hidden, r, 2, 1, from_h_);
    }
    for (int64_t b = 0; b < count_; ++b) {
      const bool walks = at < length(b);
      double* const h = h_ + b * s_.hidden;
      for (int64_t j = 0; walks && j < s_.hidden; ++j) h[j] = unit(x + b * c_.width(), b, j);
      if (!ports_.out[0]) continue;
      double* const y = ports_.out[0] + s_.y_of(d_, first_ + b, walks ? place(b, at) : at);
      walks ? std::copy_n(h, s_.hidden, y) : std::fill_n(y, s_.hidden, 0.0);
    }
  }
  // The new state of a unit.
  double unit(const double* x, int64_t b, int64_t j) {
    const double old = h_[b * s_.hidden + j];
    if (s_.kind == Kind::kRnn) return function(0, clipped(sum(x, b, 0, j)));
    if (s_.kind == Kind::kLstm) return lstm(x, b, j);
    const double z = function(0, clipped(sum(x, b, 0, j)));
    const double scale = s_.two_phases() ? 1 : function(0, clipped(sum(x, b, 1, j)));
    return (1 - z) * function(1, clipped(x[2 * c_.gate() + j] + scale * from_h(b, 2, j))) + z * old;
  }
  double lstm(const double* x, int64_t b, int64_t j) {
    const auto seen = [&](int64_t g, double of) {
      return ports_.peephole ? ports_.peephole[(d_ * 3 + g) * s_.hidden + j] * of : 0;
    };
    double& memory = memory_[b * s_.hidden + j];
    const double i = function(0, clipped(sum(x, b, 0, j) + seen(0, memory)));
    const double f = s_.coupled ? 1 - i : function(0, clipped(sum(x, b, 2, j) + seen(2, memory)));
    memory = f * memory + i * function(1, clipped(sum(x, b, 3, j)));
    return function(0, clipped(sum(x, b, 1, j) + seen(1, memory))) * function(2, memory);
  }

  const Cell& c_;
  const Shape& s_;
  void (*product_)(const typed::ProductArgs&);
  const double* packed_;
  const Ports& ports_;
  int64_t d_, first_, count_;
  double *x_, *from_x_, *from_h_, *h_, *memory_, *reset_;
};

// `packs`: each run packs its weights, in a phase of its own.
Needs needs_of_cell(const Cell& c, bool packs) {
  const auto bytes = [](int64_t doubles) { return static_cast<size_t>(doubles) * sizeof(double); };
  const int64_t sequences = c.shape.directions * c.groups();
  Needs out{packs ? bytes(c.of_w(c.shape.directions)) : 0, bytes(Sequences::doubles(c)), {}, {}};
  if (packs) out.tasks.push_back(pack_parts(c));
  out.tasks.push_back(sequences);
  return out;
}

// A phase that packs weights which the run brings, and the sequences.
class CellInstance final : public Instance {
 public:
  // `packed` null: by each run.
  CellInstance(Cell c, cpu::Isa isa, Packed packed, std::vector<Source> ports)
      : Instance(needs_of_cell(c, !packed)),
        c_(std::move(c)),
        isa_(isa),
        packed_(std::move(packed)),
        ports_(std::move(ports)) {}
  void run_task(int phase, int64_t task, const Args& args) const override {
    const auto in = [&](size_t port) { return static_cast<const double*>(ports_[port].data(args)); };
    double* const made = reinterpret_cast<double*>(args.workspace);
    if (packs(phase)) return pack_part(c_, {in(cell::kW), in(cell::kR), in(cell::kBias)}, task, made);
    Ports at = {in(cell::kX),
                in(cell::kInitialH),
                in(cell::kInitialC),
                in(cell::kPeephole),
                static_cast<const int32_t*>(ports_[cell::kLengths].data(args)),
                {}};
    for (size_t k = 0; k < 3; ++k)
      if (const int o = c_.shape.outputs[k]; o >= 0) at.out[k] = static_cast<double*>(args.out[static_cast<size_t>(o)]);
    const double* const weights = packed_ ? packed_as<double>(packed_) : made;
    Sequences(c_, isa_, weights, at, task, reinterpret_cast<double*>(args.scratch)).run();
  }
  Status finish(const Args& args) const override {
    const auto* lengths = static_cast<const int32_t*>(ports_[cell::kLengths].data(args));
    for (int64_t b = 0; lengths && b < c_.shape.batch; ++b) PERI_TRY(ops::check_length(lengths[b], c_.shape.steps));
    return Ok{};
  }

 private:
  bool packs(int phase) const { return !packed_ && phase == 0; }

  Cell c_;
  cpu::Isa isa_;
  Packed packed_;
  std::vector<Source> ports_;
};

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(cpu::best_isa(target));
  return std::vector<Offer>{row_major_offer(p, target)};
}

// Whether all that is packed is known before a run.
bool known_weights(const Problem& p) {
  const size_t weights[] = {cell::kW, cell::kR, cell::kBias};
  return std::ranges::all_of(weights, [&](size_t port) { return cell::is_constant(p, port); });
}

Result<Needs> needs(const Problem& p, std::string_view, const Target& target) {
  PERI_TRY(check_row_major(p));
  PERI_TRY(cpu::best_isa(target));
  PERI_ASSIGN(const Cell c, read(p));
  return needs_of_cell(c, !known_weights(p));
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& context) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(Cell c, read(p));
  PERI_ASSIGN(const cpu::Isa isa, cpu::best_isa(*context.target));
  const ir::Node& n = p.anchor();
  const size_t weights[] = {cell::kW, cell::kR, cell::kBias};
  const bool known = known_weights(p);
  const auto source = [&](size_t port) { return Source::of(p, n.in(port), context.constants); };
  std::vector<Source> ports;
  for (size_t port = 0; port < cell::kPorts; ++port)
    ports.push_back(known && std::ranges::count(weights, port) ? Source() : source(port));
  if (!known) return std::unique_ptr<Instance>(std::make_unique<CellInstance>(std::move(c), isa, nullptr, ports));
  const auto weight = [&](size_t port) { return static_cast<const double*>(source(port).data({})); };
  PERI_TRY(pack_once<double>(context, "", c.of_w(c.shape.directions), [&](double* to) {
    for (int64_t part = 0; part < pack_parts(c); ++part)
      pack_part(c, {weight(cell::kW), weight(cell::kR), weight(cell::kBias)}, part, to);
  }));
  return std::unique_ptr<Instance>(std::make_unique<CellInstance>(std::move(c), isa, *context.packed, ports));
}
}  // namespace

extern const Entry recurrent_f64_entry;
const Entry recurrent_f64_entry{{
    .name = "recurrent_f64",
    .version = 1,
    .provider = "peri",
    .takes = "RNN, GRU and LSTM of f64",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs,
    // More sequences than a task has, more steps than are multiplied together, some sequences shorter.
    .samples =
        {"graph { input x: f64[19,10,5]; const w: f64[2,84,5] = seeded(0.3, 1); const r: f64[2,84,21] = seeded(0.2, "
         "2); "
         "const b: f64[2,168] = seeded(0.2, 3); const n: i32[10] = [19, 3, 0, 17, 16, 5, 18, 1, 2, 19]; input s: "
         "f64[2,10,21]; input m: f64[2,10,21]; const p: f64[2,63] = seeded(0.3, 4); y, h, c = lstm(x, w, r, b, n, s, "
         "m, "
         "p) {direction=\"bidirectional\"}; output y; output h; output c }",
         "graph { input x: f64[5,3,8]; const w: f64[1,60,8] = seeded(0.3, 1); const r: f64[1,60,20] = seeded(0.2, 2); "
         "const b: f64[1,120] = seeded(0.2, 3); y, h = gru(x, w, r, b) {linear_before_reset=1}; output y; output h }",
         "graph { input x: f64[3,5,8]; const w: f64[1,60,8] = seeded(0.3, 1); const r: f64[1,60,20] = seeded(0.2, 2); "
         "const b: f64[1,120] = seeded(0.2, 3); const n: i32[3] = [5, 0, 3]; y, h = gru(x, w, r, b, n) "
         "{direction=\"reverse\", layout=1}; output y; output h }",
         "graph { input x: f64[4,2,8]; const w: f64[1,40,8] = seeded(0.3, 1); const r: f64[1,40,40] = seeded(0.1, 2); "
         "y, h = rnn(x, w, r) {activations=strings[\"Relu\"], clip=0.5}; output h }",
         "graph { input x: f64[6,9,5]; input w: f64[2,60,5]; input r: f64[2,60,20]; input b: f64[2,120]; y, h = gru(x, "
         "w, r, b) {direction=\"bidirectional\"}; output y; output h }",
         "graph { input x: f64[3,2,4]; const w: f64[1,84,4] = seeded(0.3, 1); input r: f64[1,84,21]; y, h, c = lstm(x, "
         "w, r); output y; output c }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
