// Kernels with one fault each: products with a residual, correct except for the fault.
#pragma once

#include <functional>

#include "kernels/cpu/task_instance.hpp"
#include "tune/judge.hpp"

namespace peri::tune::planted {

enum class Fault {
  kNone,
  kReadsLate,     // the residual is read after results are written, although sharing their memory is offered
  kOwnInput,      // panels of columns are written over the input that later panels read
  kSmall,         // wrong with less than 8 rows
  kLarge,         // wrong with more than 64 rows
  kLastTile,      // wrong in the last element
  kPastEnd,       // writes the element behind its result
  kBeforeStart,   // writes the element before its result
  kWorkspace,     // writes beyond its workspace
  kScratch,       // writes beyond its scratch
  kReadsPastEnd,  // adds what is beyond its input
  kChangesInput,
  kFinish,       // reports an error
  kOrder,        // sums in the order in which tasks run
  kStale,        // adds the previous contents of its workspace
  kLazy,         // does nothing where its last element is already correct
  kRefusesLate,  // refuses when the instance is created
};

// y = x w + r, or x w without r; one task per 8 columns.
class Instance final : public kernels::Instance {
 public:
  Instance(Fault fault, int64_t m, int64_t k, int64_t n, bool residual)
      : kernels::Instance({64, 64, {1, (n + 7) / 8 + (fault == Fault::kOrder ? 1 : 0)}, {}}),
        fault_(fault),
        m_(m),
        k_(k),
        n_(n),
        residual_(residual) {}
  // As in its offer.
  bool may_take(size_t output, size_t input) const override {
    return output == 0 && input == (fault_ == Fault::kOwnInput && k_ == n_ ? 0u : 2u);
  }
  void run_task(int phase, int64_t task, const kernels::Args& args) const override;
  Status finish(const kernels::Args&) const override {
    return fault_ == Fault::kFinish ? Status(invalid("a planted error")) : Status(Ok{});
  }

 private:
  double value(const kernels::Args& args, int64_t row, int64_t column) const;
  Fault fault_;
  int64_t m_, k_, n_;
  bool residual_;
};

template <Fault kFault>
Result<std::vector<kernels::Offer>> offer(const kernels::Problem& p, const device::Target& target) {
  const ir::Graph& g = *p.graph;
  const bool bare = g.nodes.size() == 1, chain = g.nodes.size() == 2 && g.nodes.back()->op == "add";
  if (g.nodes[0]->op != "matmul" || (!bare && !chain)) return refused("not a product with a residual");
  if (g.inputs.size() != (bare ? 2 : 3)) return refused("not a product of arguments");
  for (const ir::Value* v : g.inputs)
    if (v->type.dtype != DType::kF32 || v->type.rank() != 2) return refused("not of matrices");
  if (chain && !(g.inputs[2]->type == g.outputs[0]->type)) return refused("not a residual");
  for (bool c : p.constant)
    if (c) return refused("takes no weights");
  kernels::Offer o = kernels::row_major_offer(p, target);
  o.inputs.resize(g.inputs.size());
  o.outputs.resize(1);
  if (kFault == Fault::kOwnInput && g.inputs[0]->type == g.outputs[0]->type)
    o.in_place = {0};
  else if (chain)
    o.in_place = {2};
  return std::vector<kernels::Offer>{o};
}

template <Fault kFault>
Result<std::unique_ptr<kernels::Instance>> make(const kernels::Problem& p, std::string_view,
                                                const kernels::InstantiateContext&) {
  if (kFault == Fault::kRefusesLate) return refused("not with this data");
  const std::vector<int64_t> a = kernels::dims_of(*p.graph->inputs[0]), b = kernels::dims_of(*p.graph->inputs[1]);
  return std::unique_ptr<kernels::Instance>(
      std::make_unique<Instance>(kFault, a[0], a[1], b[1], p.graph->inputs.size() == 3));
}

template <Fault kFault>
const kernels::Kernel& kernel() {
  static const std::string name = "planted" + std::to_string(static_cast<int>(kFault));
  static const kernels::Kernel k{name, 1, "one", "cpu", "products", offer<kFault>, make<kFault>};
  return k;
}

// Makes kernels of a test visible to executors during its lifetime.
class Known {
 public:
  void add(const kernels::Kernel& kernel) {
    if (kernels::find(kernel.name) != &kernel) added_.push_back(std::make_unique<kernels::AddedKernel>(kernel));
  }

 private:
  std::vector<std::unique_ptr<kernels::AddedKernel>> added_;
};

}  // namespace peri::tune::planted
