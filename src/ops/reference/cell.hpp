// Recurrent cells: their attributes and sizes, and values with radii through the functions and products of a cell.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/reference/norm.hpp"

namespace peri::ops {

// An activation function of a cell, by its ONNX name. Functions with parameters take them from activation_alpha and
// activation_beta in the order of the functions.
struct CellFunction {
  std::string_view name;  // in lower case
  double (*at)(double x, double alpha, double beta) = nullptr;
  double alpha = 0, beta = 0;
  double own = 0;  // error of an implementation in addition to 4 u |y|, in units of u
  Near operator()(Near x, double u) const;
};

// The attributes of an operator whose W has `gates` rows per hidden unit, and the sizes of one run.
struct CellNode {
  int64_t gates = 1, directions = 1, hidden = 0;
  int64_t steps = 0, batch = 0, input = 0;  // of a run
  bool batch_first = false;
  double clip = 0;                      // 0: none
  std::vector<CellFunction> functions;  // directions times functions of the cell
  // Whether direction `d` runs from the last step to the first.
  bool reversed(int64_t d) const { return first_reversed || d == 1; }
  Near clipped(Near x) const;

  bool first_reversed = false;
};

// Reads attributes; `defaults` are the functions of one direction. Errors name the attribute.
Result<CellNode> read_cell(const ir::Node& node, int64_t gates, std::span<const std::string_view> defaults);

// Error unless input `port`, if present, has this shape, compared where both are numbers.
Status expect_shape(const InferContext& c, size_t port, std::string_view name, const Shape& want);

// Errors: kInvalid: an element of sequence_lens is less than 0, or more than there are steps.
Status check_length(int64_t length, int64_t steps);
Status check_lengths(const RefCall& call, const CellNode& cell);

// OpDef::line_axes of a cell's outputs.
std::vector<size_t> cell_line_axes(const ir::Node& node, size_t output);
// Checks x, W, R, B, sequence_lens and initial_h against each other; sets y and y_h.
Status infer_cell(InferContext& c, const CellNode& cell);

Near plus(Near a, Near b, double u);
inline Near minus_from_one(Near a, double u) { return {1 - a.v, a.r + u * (1 + std::fabs(a.v))}; }

// One direction of a run: products of inputs and states with the weights, the last states, results. Only sequences of
// which the call wants a position are walked.
class CellRun {
 public:
  CellRun(RefCall& call, const CellNode& cell);

  // Calls step(batch) for each step of each wanted sequence in its order, then stores the state into y and, after the
  // last step, into y_h. `state` is [batch, hidden], initialised from initial_h.
  template <class F>
  void walk(int64_t direction, F step) {
    begin(direction);
    for (int64_t s = 0; s < cell_.steps; ++s)
      for (const int64_t b : wanted_) {
        const int64_t length = length_of(b);
        if (s >= length) continue;
        at_ = cell_.reversed(direction) ? length - 1 - s : s;
        step(b);
        keep(b);
      }
    end();
  }
  Near* state(int64_t b) { return state_.data() + b * cell_.hidden; }
  // x W^T + bias of W of gate `g`, unit `j`, at this step.
  Near from_input(int64_t b, int64_t g, int64_t j) const;
  // v R^T + bias of R of gates [first, first + count): to[k * hidden + j].
  void from_state(const Near* v, int64_t first, int64_t count, std::vector<Near>& to) const;
  // State `port` of this direction, [batch, hidden]; zeros where it is left out.
  std::vector<Near> initial(size_t port) const;
  // Stores the last state of another kind into output `port`: zero for a sequence without steps, as in ONNX Runtime.
  void store_last(size_t port, const std::vector<Near>& last);
  double u() const { return call_.u; }
  int64_t hidden() const { return cell_.hidden; }
  const CellFunction& function(size_t k) const;
  int64_t direction() const { return direction_; }

 private:
  void begin(int64_t direction);
  void choose_sequences();
  void multiply_inputs();
  int64_t row_of(int64_t b, int64_t step) const {
    return cell_.batch_first ? b * cell_.steps + step : step * cell_.batch + b;
  }
  void keep(int64_t b);
  void end();
  int64_t length_of(int64_t b) const;
  int64_t state_at(int64_t b) const;  // flat position of the initial and last states
  Near bias(int64_t row) const;

  RefCall& call_;
  const CellNode& cell_;
  int64_t direction_ = 0, at_ = 0;
  std::vector<Near> state_;
  std::vector<int64_t> wanted_;  // sequences of this direction, ascending
  std::vector<int64_t> place_;   // of a sequence among the wanted ones
  // x W^T of all steps: rows as in x, or of one wanted sequence after the other.
  std::vector<double> product_, radius_;
};

// An LSTM with the operator's inputs. With `rounding` a state is rounded to fewer bits where it is multiplied: with an
// error of at most `rounding` times the largest of its sequence and step, and not finite where one of them is not.
Status walk_lstm(RefCall& call, const CellNode& cell, double rounding);
// The radius of values rounded in this way, or NaN where one of them is not finite.
double rounding_radius(double largest, double rounding);

}  // namespace peri::ops
