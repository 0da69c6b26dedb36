// Trial: one candidate on one problem with seeded data: does it give the right answer, and how long does it take.
#pragma once

#include "tune/tuner.hpp"

namespace peri::tune {

// Seeded arguments of a concrete problem: activations normal, indices within the range of what they index, constants
// normal with a spread that keeps sums near one.
Result<std::vector<Tensor>> make_arguments(const ir::Graph& region, uint64_t seed);

// The region's answer in float64 with radii for round-off `u`: at least 4096 seeded positions of output 0 (both ends
// of it and of each axis included) if the whole is dear, else everything. Computed once for all candidates of a
// problem.
struct Expected {
  std::vector<ops::RefTensor> out;
  std::vector<int64_t> positions;  // of output 0; empty: all of all outputs
};
Result<Expected> make_expected(const ir::Graph& region, std::span<const Tensor> arguments, int threads, uint64_t seed);
// The same at given ascending positions of the only output; none: everything.
Result<Expected> expected_at(const ir::Graph& region, std::span<const Tensor> arguments, int threads,
                             std::vector<int64_t> positions);
// At most 64 positions at which two whole row-major answers differ by more than both may, as far as the expectation's
// positions tell: twice the largest radius among them. REQUIRES: expected.positions is not empty.
std::vector<int64_t> disputed_positions(const Expected& expected, const Tensor& a, const Tensor& b);

// A bare runner of a kernel instance with its own memory, arguments converted to the offer's layouts.
class Trial {
 public:
  static Result<std::unique_ptr<Trial>> create(const ir::Graph& region, const std::vector<bool>& constant,
                                               const Candidate& candidate, std::span<const Tensor> arguments,
                                               const kernels::Machine& machine, ThreadPool* pool);
  ~Trial();
  // Poisons the outputs, runs, checks that inputs are unchanged. Returns the largest |error| / radius; error kAccuracy
  // with the position if it is above 1. `outputs`: the row-major answers too.
  Result<double> verify(const Expected& expected, std::vector<Tensor>* outputs = nullptr);
  // The 20th percentile of repeated runs in ms: 5 of them, and more while `budget_ms` lasts. Where the region has
  // weights, `rest` is read before each: in a run of the whole network as much passes through the caches between two
  // uses of a weight. The activations are read after it, as the step before has just written them.
  double time_ms(double budget_ms, std::span<const std::byte> rest);
  void run();

 private:
  Trial();
  void cool(std::span<const std::byte> rest);
  struct State;
  std::unique_ptr<State> state_;
};

// Compares row-major results with the expectation; returns the largest |error| / radius or kAccuracy naming the
// position.
Result<double> compare(const Expected& expected, std::span<const Tensor> got);

// Row-major tensor <-> tensor in a layout, element for element (slow, for trials and tests).
Result<Tensor> to_layout(const Tensor& row_major, const ir::Layout& layout);
Result<Tensor> from_layout(const Tensor& physical, const ir::Layout& layout, const std::vector<int64_t>& dims);
// Dims of the physical array a layout stores.
std::vector<int64_t> physical_dims(const std::vector<int64_t>& dims, const ir::Layout& layout);

}  // namespace peri::tune
