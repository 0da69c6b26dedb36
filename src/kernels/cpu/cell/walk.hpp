// A recurrent cell over a sequence, after a phase that packs weights which the run brings. The products of the inputs
// of some steps are a phase; then each of these steps is one, whose tasks each compute a block of units: their gates'
// rows of R times the state, and the cell on the sums while they are in cache; or all of these steps are one, whose
// tasks each compute a direction. The kernel defines products and weights.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/cpu/cell/cell.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "ops/reference/cell.hpp"

namespace peri::kernels::cpu::cell {

enum Port : size_t { kX, kW, kR, kBias, kLengths, kInitialH, kInitialC, kPeephole, kPorts };

struct Shape {
  Kind kind = Kind::kRnn;
  int64_t gates = 1, directions = 1, steps = 0, batch = 0, input = 0, hidden = 0;
  bool batch_first = false, first_reversed = false, coupled = false;
  float clip = std::numeric_limits<float>::infinity();
  Activation functions[2][3] = {};
  int outputs[3] = {-1, -1, -1};  // index of y, y_h, y_c among the results; -1: not wanted

  int64_t together = 0;  // steps whose inputs are multiplied together

  int64_t sums() const { return gates * hidden; }
  // Steps from `first` on, a multiple of `together`, whose inputs are multiplied together, and their rows of x.
  int64_t steps_from(int64_t first) const { return std::min(together, steps - first); }
  int64_t rows_from(int64_t first) const { return steps_from(first) * batch; }
  // The most rows of x that are multiplied together, and those of the last steps.
  int64_t most_rows() const { return rows_from(0); }
  int64_t last_rows() const { return rows_from((steps - 1) / together * together); }
  bool two_phases() const { return kind == Kind::kGruGates; }
  int64_t phases_a_step() const { return two_phases() ? 2 : 1; }
  int64_t units = 16;  // per block, a multiple of 16; the last block may have fewer
  int64_t blocks() const { return (hidden + units - 1) / units; }
  int64_t units_of(int64_t block) const { return std::min(units, hidden - block * units); }
  // Units of a block in packed weights and in products: whole vectors.
  int64_t width_of(int64_t block) const { return (units_of(block) + 15) / 16 * 16; }
  int64_t row_of(int64_t b, int64_t t) const { return batch_first ? b * steps + t : t * batch + b; }
  int64_t state_of(int64_t d, int64_t b) const { return (batch_first ? b * directions + d : d * batch + b) * hidden; }
  int64_t y_of(int64_t d, int64_t b, int64_t t) const {
    return (batch_first ? (b * steps + t) * directions + d : (t * directions + d) * batch + b) * hidden;
  }
};

// Units per block such that a task has at least this many products. A function of the cell alone, so that packed
// weights are valid for every run.
int64_t units_of(const Shape& s, int64_t products, int64_t most_tasks);
// Kind, gates and sizes of weights of an RNN, a GRU or an LSTM.
Status read_kind(const ir::Node& n, Shape* s);
// Functions, and the attributes as the definition has them.
Result<ops::CellNode> read_node(const ir::Node& n, const Shape& s);
// Reads the attributes of a cell, and the sizes and results of `p`; kind, gates and sizes of weights are set already.
// Refuses an epilogue and empty sizes.
Status read_cell(const Problem& p, Shape* s, DType type = DType::kF32);
// Whether an argument is absent or known before a run.
bool is_constant(const Problem& p, size_t port);

// Such that a run is soon stopped.
constexpr int64_t kStepsAtOnce = 256;
// Where a step is several blocks of units, also offers with tasks of whole directions ("steps=256"): weights stay in
// the cache of one processor and no task waits for another at each step, but fewer threads work. Which is faster
// depends on the number of threads, so both are timed.
std::vector<Offer> with_whole_directions(std::vector<Offer> offers, const Shape& s);
// What a configuration says of it, 0 or kStepsAtOnce, and the rest of the configuration.
Result<std::pair<int64_t, std::string>> read_steps(std::string_view config);

// What a kernel's products need in addition to the walk's own memory.
struct WalkCut {
  size_t scratch = 0;  // bytes for each thread
  // Weights that a run packs, in floats at the beginning of the workspace; 0: they are packed before.
  int64_t pack_floats = 0, pack_tasks = 0;
  // That together compute the products of Shape::most_rows() rows of x of a direction, and of Shape::last_rows().
  int64_t input_tasks[2] = {};
};

class Walk : public Instance {
 public:
  // `steps`: of a direction that a task computes, kStepsAtOnce; 0: so many where a step is one block of units, else
  // one.
  Walk(Shape shape, Isa isa, std::vector<Source> ports, int64_t steps, const WalkCut& cut)
      : Instance(needs_of(shape, steps, cut)),
        s_(shape),
        isa_(isa),
        ports_(std::move(ports)),
        cut_(cut),
        whole_(is_whole(shape, steps)) {}
  static Needs needs_of(const Shape& shape, int64_t steps, const WalkCut& cut);
  void run_task(int phase, int64_t task, const Args& args) const override;
  Status finish(const Args& args) const override;

 protected:
  virtual void pack(int64_t /*task*/, float* /*to*/, const Args&) const {}
  // Some rows of x, one for each step of a sequence.
  struct Rows {
    int64_t first, count;
  };
  // Task `part` of WalkCut::input_tasks, with biases: to[row - rows.first][sums].
  virtual void multiply_inputs(int64_t d, int64_t part, Rows rows, float* to, const Args& args) const = 0;
  // Products of states [batch][hidden] with the gates of a block, gate after gate, in the task's scratch; `second`: of
  // a GRU that scales the state, those with the new state's part of R.
  virtual const float* multiply_states(int64_t d, int64_t block, bool second, const float* states,
                                       const Args& args) const = 0;
  // Row length of these products; that of the first block is the largest.
  static int64_t width(const Shape& s, bool second, int64_t block) {
    return (second ? 1 : s.two_phases() ? 2 : s.gates) * s.width_of(block);
  }
  static int64_t rounded(int64_t floats) { return (floats + 15) / 16 * 16; }
  const Shape& shape() const { return s_; }
  Isa isa() const { return isa_; }
  const float* port(Port k, const Args& args) const { return ports_[k].f32(args); }

 private:
  // Phases of steps whose inputs are multiplied together.
  static int64_t phases_of(const Shape& s, bool whole, int64_t steps) {
    return 1 + (whole ? (steps + kStepsAtOnce - 1) / kStepsAtOnce : steps * s.phases_a_step());
  }
  static int64_t input_tasks(const Shape& s, const WalkCut& cut, int64_t first) {
    return cut.input_tasks[s.rows_from(first) != s.most_rows()];
  }
  // The first row of x of the steps that step `at` belongs to.
  int64_t first_row(int64_t d, int64_t at) const {
    if (s_.together == s_.steps) return 0;
    const int64_t first = at / s_.together * s_.together;
    return (reversed(d) ? s_.steps - first - s_.steps_from(first) : first) * s_.batch;
  }
  // Weights that the run packs; per direction: products of the inputs, two states, the memory, the scaled state.
  static int64_t state_floats(const Shape& s) { return rounded(s.batch * s.hidden); }
  static int64_t product_floats(const Shape& s) { return rounded(s.most_rows() * s.sums()); }
  static int64_t of_direction(const Shape& s, const WalkCut& cut, int64_t d) {
    return rounded(cut.pack_floats) + d * (product_floats(s) + 4 * state_floats(s));
  }
  static bool is_whole(const Shape& s, int64_t steps) { return steps > 1 || s.blocks() == 1; }
  float* products(int64_t d, const Args& args) const {
    return reinterpret_cast<float*>(args.workspace) + of_direction(s_, cut_, d);
  }
  float* state(int64_t d, int64_t k, const Args& args) const {
    return products(d, args) + product_floats(s_) + k * state_floats(s_);
  }
  float* result(int k, const Args& args) const {
    return s_.outputs[k] < 0 ? nullptr : static_cast<float*>(args.out[static_cast<size_t>(s_.outputs[k])]);
  }
  int64_t length(int64_t b, const Args& args) const;
  bool reversed(int64_t d) const { return d == 1 || s_.first_reversed; }
  // The position of step `at` in a sequence.
  int64_t time_of(int64_t d, int64_t at, int64_t length) const { return reversed(d) ? length - 1 - at : at; }
  // Products of the inputs of sequence `b` at position `t`, which step `at` computes.
  const float* product_of(int64_t d, int64_t at, int64_t b, int64_t t, const Args& args) const {
    return products(d, args) + (s_.row_of(b, t) - first_row(d, at)) * s_.sums();
  }
  void begin(int64_t d, const Args& args) const;
  void step(int64_t at, bool second, int64_t task, const Args& args) const;
  void steps(int64_t first, int64_t end, int64_t d, const Args& args) const;

  Shape s_;
  Isa isa_;
  std::vector<Source> ports_;
  WalkCut cut_;
  bool whole_;  // a task computes a direction
};

}  // namespace peri::kernels::cpu::cell
