// Kernel copy: transpose, slice, expand, split and concat for elements of any type, as strided copies.
#include <algorithm>

#include "kernels/cpu/move/copy.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/copies.hpp"

namespace peri::kernels {
namespace {
namespace move = cpu::move;

Result<std::vector<Offer>> offer(const Problem& p, const Target&) {
  PERI_ASSIGN(const std::vector<Copy> copies, read_copies(p));
  for (const Copy& c : copies) PERI_TRY(move::make_plan(c.shape));
  Offer plain;
  for (const ir::Value* v : p.graph->inputs) plain.inputs.push_back(v->type.layout);
  for (const ir::Value* v : p.graph->outputs) plain.outputs.push_back(v->type.layout);
  std::vector<Offer> out = {plain};
  const std::string& op = p.anchor().op;
  const bool four = p.anchor().in(0)->type.rank() == 4 && p.anchor().out()->type.rank() == 4;
  if (four && (op == "concat" || op == "slice" || op == "split")) {  // the same along other axes of memory
    Offer o = plain;
    for (size_t k = 0; k < o.inputs.size(); ++k)
      if (!p.constant[k] && p.graph->inputs[k]->type.rank() == 4) o.inputs[k] = ir::nhwc();
    for (ir::Layout& l : o.outputs) l = ir::nhwc();
    out.push_back(std::move(o));
  }
  return out;
}

class CopyInstance final : public Instance {
 public:
  struct Part {
    move::CopyPlan plan;
    Source from;
    size_t output;
  };
  explicit CopyInstance(std::vector<Part> parts) : Instance(needs_of_tasks(tasks_of(parts))), parts_(std::move(parts)) {
    for (const Part& p : parts_) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + move::task_count(p.plan));
  }
  void run_task(int, int64_t task, const Args& args) const override {
    const size_t at = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), task) - ends_.begin());
    const Part& p = parts_[at];
    move::run_task(p.plan, p.from.data(args), args.out[p.output], at == 0 ? task : task - ends_[at - 1]);
  }

 private:
  static int64_t tasks_of(const std::vector<Part>& parts) {
    int64_t out = 0;
    for (const Part& p : parts) out += move::task_count(p.plan);
    return out;
  }
  std::vector<Part> parts_;
  std::vector<int64_t> ends_;  // of each part's tasks
};

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_ASSIGN(const std::vector<Copy> copies, read_copies(p));
  std::vector<CopyInstance::Part> parts;
  for (const Copy& copy : copies) {
    PERI_ASSIGN(move::CopyPlan plan, move::make_plan(copy.shape));
    parts.push_back({std::move(plan), Source::of(p, copy.from, c.constants), copy.output});
    if (!parts.back().from.known()) return refused("reads a value made inside the region");
  }
  return std::unique_ptr<Instance>(std::make_unique<CopyInstance>(std::move(parts)));
}
}  // namespace

extern const Entry copy_entry;
const Entry copy_entry{{
    .name = "copy",
    .version = 1,
    .provider = "peri",
    .takes = "transpose, slice, expand, split, concat and changes of layout, elements of any byte-sized type",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .takes_constants = true,
}};

}  // namespace peri::kernels
