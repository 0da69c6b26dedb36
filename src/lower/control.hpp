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

// What a graph and the bodies in it have together.
struct Whole {
  explicit Whole(const plan::Lock* locked) : lock(locked) {}
  plan::LockReader lock;
  WeightList weights;
  // For bodies where the backend's own kernels run on a device.
  std::unique_ptr<tune::Tuner> of_host;
};

// lower_graph() for a part of the whole: weights and unused locked choices stay there.
Result<Lowered> lower_part(const ir::Graph& graph, const Backend& backend, tune::Tuner& tuner, const Options& options,
                           Whole* whole);

// Executor, payload and bodies of a step for an if or a loop.
Status lower_bodies(const ir::Node& node, const Backend& backend, tune::Tuner& tuner, const Options& options,
                    Whole* whole, plan::Step* step, StepReport* report);

// Results and arguments of bodies that the weight section does not hold as they are read are made by a step.
Status store_arguments(ir::Graph* graph);
// As they are read: those stored narrow are packed in float32. Bodies' included.
double weight_bytes_of(const ir::Graph& graph);

}  // namespace peri::lower
