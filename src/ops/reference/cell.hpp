// Recurrent cells: their attributes, their sizes, and numbers with radii through the functions and products of a cell.
#pragma once

#include <string>
#include <vector>

#include "ops/reference/norm.hpp"

namespace peri::ops {

// A function of a cell, as the ONNX recurrent operators name them. Those with parameters take them from
// activation_alpha and activation_beta in the order of the functions.
struct CellFunction {
  double (*at)(double x, double alpha, double beta) = nullptr;
  double alpha = 0, beta = 0;
  double own = 0;  // what an implementation may err beside 4 u |y|, in units of u
  Near operator()(Near x, double u) const;
};

// What an operator with `gates` rows of W a hidden unit says, and the sizes of one run.
struct CellNode {
  int64_t gates = 1, directions = 1, hidden = 0;
  int64_t steps = 0, batch = 0, input = 0;  // of a run
  bool batch_first = false;
  double clip = 0;                      // 0: none
  std::vector<CellFunction> functions;  // directions times those of the cell
  // Whether direction `d` walks from the end.
  bool reversed(int64_t d) const { return first_reversed || d == 1; }
  Near clipped(Near x) const;

  bool first_reversed = false;
};

// Reads attributes; `defaults` are the functions of one direction. Errors name the attribute.
Result<CellNode> read_cell(const ir::Node& node, int64_t gates, std::span<const std::string_view> defaults);

// Whether input `port`, if it is given, has the shape, as far as both are numbers.
Status expect_shape(const InferContext& c, size_t port, std::string_view name, const Shape& want);
// Checks x, W, R, B, sequence_lens and initial_h against each other, sets y and y_h.
Status infer_cell(InferContext& c, const CellNode& cell);

Near plus(Near a, Near b, double u);
inline Near minus_from_one(Near a, double u) { return {1 - a.v, a.r + u * (1 + std::fabs(a.v))}; }

// One direction of a run: products of inputs and states with the weights, states of the last step, results.
class CellRun {
 public:
  CellRun(RefCall& call, const CellNode& cell);

  // Calls step(batch) for each step of each sequence in its order, then keeps the state as y and in the end as y_h.
  // `state` is [batch, hidden], begun from initial_h.
  template <class F>
  void walk(int64_t direction, F step) {
    begin(direction);
    for (int64_t s = 0; s < cell_.steps; ++s)
      for (int64_t b = 0; b < cell_.batch; ++b) {
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
  // The last state of another kind, into output `port`: zero of a sequence without steps, as ONNX Runtime has it.
  void store_last(size_t port, const std::vector<Near>& last);
  double u() const { return call_.u; }
  int64_t hidden() const { return cell_.hidden; }
  const CellFunction& function(size_t k) const;
  int64_t direction() const { return direction_; }

 private:
  void begin(int64_t direction);
  void keep(int64_t b);
  void end();
  int64_t length_of(int64_t b) const;
  int64_t state_at(int64_t b) const;  // flat position of initial states and last ones
  Near bias(int64_t row) const;

  RefCall& call_;
  const CellNode& cell_;
  int64_t direction_ = 0, at_ = 0;
  std::vector<Near> state_;
  std::vector<double> product_, radius_;  // x W^T of all steps, rows as in x
};

// An LSTM of inputs as the operator has them. With `rounding` a state is a number of fewer bits where it is multiplied:
// off by at most `rounding` of the largest of its sequence and step, and not finite where one of them is not.
Status walk_lstm(RefCall& call, const CellNode& cell, double rounding);
// `count` numbers that are so rounded: what each may be off by, or NaN where one is not finite.
double rounding_radius(double largest, double rounding);

}  // namespace peri::ops
