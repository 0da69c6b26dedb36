// Lowering of bodies: each is a separate program, tuned and verified like the rest, which uses the weights and locked
// choices of the whole. Bodies run on the host.
#pragma once

#include "lower/lower.hpp"

namespace peri::lower {

// Weights of a program and of its bodies, each block of memory once.
struct WeightList {
  std::vector<plan::Weight> table;
  std::vector<Tensor> tensors;
  int32_t add(const std::string& name, const Tensor& tensor);

 private:
  std::map<std::tuple<const void*, DType, std::vector<int64_t>>, int32_t> known_;
};

// What a graph and its bodies share.
struct Whole {
  explicit Whole(const plan::Lock* locked) : lock(locked) {}
  plan::LockReader lock;
  WeightList weights;
  // The tuner for bodies where the backend's own kernels run on a device.
  std::unique_ptr<tune::Tuner> of_host;
};

// lower_graph() for a part of the whole: weights and unused locked choices are kept in the whole.
Result<Lowered> lower_part(const ir::Graph& graph, const Backend& backend, tune::Tuner& tuner, const Options& options,
                           Whole* whole);

// Executor, payload and bodies of a step for an if or a loop.
Status lower_bodies(const ir::Node& node, const Backend& backend, tune::Tuner& tuner, const Options& options,
                    Whole* whole, plan::Step* step, StepReport* report);

// Adds steps that compute results and arguments of bodies which the weight section does not hold in the form in which
// they are read.
Status store_arguments(ir::Graph* graph);
// In the form in which they are read: weights stored narrow are packed in float32. Includes those of bodies.
double weight_bytes_of(const ir::Graph& graph);

}  // namespace peri::lower
