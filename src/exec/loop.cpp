// Executor "loop": runs its body until the trip count is reached or the condition is false. Reads: trip count (i64, one
// element) and condition (bool, one element), each may be left out; the carried values; captures. The body takes
// iteration, condition, carried values and captures, and gives condition, carried values and one part of each scan
// output. Writes: carried values, then scan outputs along a new axis. Payload: "carried=N axes=A,.. reversed=0,..".
#include <algorithm>

#include "exec/control/body.hpp"
#include "exec/control/loop_run.hpp"
#include "exec/entry.hpp"
#include "exec/region/region_payload.hpp"

namespace peri::exec {

namespace {
class LoopInstance final : public runtime::Instance {
 public:
  LoopInstance(const LoopPlan* plan, std::shared_ptr<const LoopSizes> sizes) : plan_(plan), sizes_(std::move(sizes)) {}
  Status run(const runtime::RunContext& context) const override { return run_loop(*plan_, sizes_, context); }

 private:
  const LoopPlan* plan_;
  std::shared_ptr<const LoopSizes> sizes_;
};

struct LoopPrepared final : runtime::Prepared {
  explicit LoopPrepared(const runtime::PrepareContext& c)
      : reads(*c.program, c.step->reads), writes(*c.program, c.step->writes) {}
  Result<std::unique_ptr<runtime::Instance>> instantiate(const DimBinding& binding) override {
    PERI_ASSIGN(std::vector<ArgType> types, reads.at(binding));
    PERI_ASSIGN(std::vector<ArgType> results, result_types(*plan.step, writes, binding));
    PERI_ASSIGN(auto sizes, loop_sizes(plan, std::move(types), std::move(results)));
    return std::unique_ptr<runtime::Instance>(std::make_unique<LoopInstance>(&plan, std::move(sizes)));
  }
  ArgTypes reads, writes;
  LoopPlan plan;
};

bool one_element(const plan::Port& port, DType dtype) { return port.dtype == dtype && product(port.shape).is_const(1); }

Status check_arguments(const runtime::PrepareContext& c, const LoopPlan& plan) {
  const plan::Step& step = *c.step;
  const plan::Program& body = *step.bodies[0];
  const size_t carried = plan.carried;
  if (step.reads.size() < 2 + carried || step.writes.size() < carried)
    return invalid("a loop has fewer arguments than carried values").at_node(step.name);
  if (body.inputs.size() != step.reads.size() || body.outputs.size() != step.writes.size() + 1)
    return invalid("a loop's body has %zu inputs and %zu outputs", body.inputs.size(), body.outputs.size())
        .at_node(step.name)
        .expecting(format("%zu and %zu", step.reads.size(), step.writes.size() + 1));
  if (step.reads[0] >= 0) PERI_TRY(check_scalar(*c.program, step, 0, DType::kI64));
  if (step.reads[1] >= 0) PERI_TRY(check_scalar(*c.program, step, 1, DType::kBool));
  if (body.inputs[0].dtype != DType::kI64 || !body.inputs[0].shape.empty() || body.inputs[1].dtype != DType::kBool ||
      !body.inputs[1].shape.empty() || !one_element(body.outputs[0], DType::kBool))
    return invalid("a loop's body does not take i64[] and bool[] and give bool[] first").at_node(step.name);
  for (size_t k = 2; k < step.reads.size(); ++k) {
    if (step.reads[k] < 0) return invalid("a carried value or capture of a loop is left out").at_node(step.name);
    PERI_TRY(check_port(*c.program, step, step.reads[k], body.inputs[k], 0));
  }
  for (size_t k = 0; k < carried; ++k)
    if (body.outputs[1 + k].dtype != body.inputs[2 + k].dtype ||
        body.outputs[1 + k].shape.size() != body.inputs[2 + k].shape.size())
      return invalid("a carried value changes its type or rank").at_node(step.name);
  for (size_t k = 0; k < step.writes.size(); ++k)
    PERI_TRY(check_port(*c.program, step, step.writes[k], body.outputs[1 + k], k < carried ? 0 : 1));
  const size_t scans = step.writes.size() - carried;
  if (plan.axes.size() != scans || plan.reversed.size() != scans)
    return invalid("a loop states axes for %zu scan outputs", plan.axes.size())
        .at_node(step.name)
        .expecting(std::to_string(scans));
  for (size_t s = 0; s < scans; ++s)
    if (plan.axes[s] < 0 || plan.axes[s] > static_cast<int64_t>(body.outputs[1 + carried + s].shape.size()))
      return invalid("scan output %zu is stacked along axis %lld", s, static_cast<long long>(plan.axes[s]))
          .at_node(step.name);
  return Ok{};
}

Result<std::unique_ptr<runtime::Prepared>> prepare(const runtime::PrepareContext& c) {
  PERI_TRY(refuse_sharing(*c.step));
  if (c.step->bodies.size() != 1) return invalid("a loop needs one body").at_node(c.step->name);
  auto prepared = std::make_unique<LoopPrepared>(c);
  PERI_ASSIGN(prepared->plan, read_loop_payload(c.variant->payload, c.step->writes.size()));
  prepared->plan.program = c.program;
  prepared->plan.step = c.step;
  prepared->plan.max_iterations = c.options->max_iterations;
  prepared->plan.memory_bytes = c.options->memory_limit();
  PERI_TRY(check_arguments(c, prepared->plan));
  PERI_ASSIGN(prepared->plan.body, Body::create(*c.step->bodies[0], c));
  return std::unique_ptr<runtime::Prepared>(std::move(prepared));
}
}  // namespace

extern const Entry loop_entry;
const Entry loop_entry{{"loop", 1, prepare}};

}  // namespace peri::exec
