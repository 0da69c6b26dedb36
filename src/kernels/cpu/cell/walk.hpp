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

  int64_t sums() const { return gates * hidden; }
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

class Walk : public Instance {
 public:
  // `steps`: of a direction that a task computes, kStepsAtOnce; 0: so many where a step is one block of units, else
  // one.
  Walk(Shape shape, Isa isa, std::vector<Source> ports, int64_t steps);
  size_t workspace_bytes() const override { return static_cast<size_t>(of_direction(s_.directions)) * sizeof(float); }
  int phases() const override {
    const int64_t whole = s_.steps / chunk_, rest = s_.steps % chunk_;
    return static_cast<int>((pack_tasks() > 0) + whole * phases_of(chunk_) + (rest ? phases_of(rest) : 0));
  }
  int64_t tasks(int phase) const override {
    if (pack_tasks() > 0 && phase-- == 0) return pack_tasks();
    const int64_t first = phase / phases_of(chunk_) * chunk_;
    if (phase % phases_of(chunk_) != 0) return s_.directions * (whole_ ? 1 : s_.blocks());
    return s_.directions * (input_tasks(rows_of(first)) + (first == 0 ? 1 : 0));
  }
  void run_task(int phase, int64_t task, const Args& args) const override;

 protected:
  // Weights that a run packs, in floats at the beginning of the workspace; none: they are packed before.
  virtual int64_t pack_floats() const { return 0; }
  virtual int64_t pack_tasks() const { return 0; }
  virtual void pack(int64_t /*task*/, float* /*to*/, const Args&) const {}
  // Some rows of x, one for each step of a sequence.
  struct Rows {
    int64_t first, count;
  };
  // Number of tasks that together compute the products of `rows` rows of x of a direction.
  virtual int64_t input_tasks(int64_t rows) const = 0;
  // Task `part` of them, with biases: to[row - rows.first][sums].
  virtual void multiply_inputs(int64_t d, int64_t part, Rows rows, float* to, const Args& args) const = 0;
  // Products of states [batch][hidden] with the gates of a block, gate after gate, in the task's scratch; `second`: of
  // a GRU that scales the state, those with the new state's part of R.
  virtual const float* multiply_states(int64_t d, int64_t block, bool second, const float* states,
                                       const Args& args) const = 0;
  // Row length of these products; that of the first block is the largest.
  int64_t width(bool second, int64_t block) const {
    return (second ? 1 : s_.two_phases() ? 2 : s_.gates) * s_.width_of(block);
  }
  // The most rows of x that are multiplied together, and, where there are others, those of the last steps.
  int64_t most_rows() const { return rows_of(0); }
  int64_t last_rows() const { return rows_of((s_.steps - 1) / chunk_ * chunk_); }
  static int64_t rounded(int64_t floats) { return (floats + 15) / 16 * 16; }
  const Shape& shape() const { return s_; }
  Isa isa() const { return isa_; }
  const float* port(Port k, const Args& args) const { return ports_[k].f32(args); }

 private:
  // Steps from `first` on, a multiple of chunk_, whose inputs are multiplied together; their rows of x, and the phases
  // of so many steps.
  int64_t steps_of(int64_t first) const { return std::min(chunk_, s_.steps - first); }
  int64_t rows_of(int64_t first) const { return steps_of(first) * s_.batch; }
  int64_t phases_of(int64_t steps) const {
    return 1 + (whole_ ? (steps + kStepsAtOnce - 1) / kStepsAtOnce : steps * s_.phases_a_step());
  }
  // The first row of x of the steps that step `at` belongs to.
  int64_t first_row(int64_t d, int64_t at) const {
    if (chunk_ == s_.steps) return 0;
    const int64_t first = at / chunk_ * chunk_;
    return (reversed(d) ? s_.steps - first - steps_of(first) : first) * s_.batch;
  }
  // Weights that the run packs; per direction: products of the inputs, two states, the memory, the scaled state.
  int64_t state_floats() const { return rounded(s_.batch * s_.hidden); }
  int64_t product_floats() const { return rounded(most_rows() * s_.sums()); }
  int64_t of_direction(int64_t d) const { return rounded(pack_floats()) + d * (product_floats() + 4 * state_floats()); }
  float* products(int64_t d, const Args& args) const {
    return reinterpret_cast<float*>(args.workspace) + of_direction(d);
  }
  float* state(int64_t d, int64_t k, const Args& args) const {
    return products(d, args) + product_floats() + k * state_floats();
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
  bool whole_;     // a task computes a direction
  int64_t chunk_;  // steps whose inputs are multiplied together
};

}  // namespace peri::kernels::cpu::cell
