// Executor "reference": the float64 reference of the ops, rounded to each value's type. Slow and always right: the last
// resort of a backend, and the only one that takes data-dependent shapes and strings so far. It reads all arguments
// before it writes: results may take their memory.
#include "exec/entry.hpp"
#include "exec/region/by_definition.hpp"
#include "exec/region/region_payload.hpp"
#include "exec/region/region_template.hpp"
#include "ops/entry.hpp"
#include "runtime/engine.hpp"

namespace peri::exec {

namespace {
class ReferencePrepared final : public runtime::Prepared {
 public:
  ReferencePrepared(RegionPayload payload, const runtime::PrepareContext& c)
      : region_(RegionTemplate::create(std::move(payload.graph), {c.program, c.step})),
        weights_(c.weights),
        binds_(!c.step->binds.empty()),
        most_elements_(c.options->memory_limit() / static_cast<int64_t>(2 * sizeof(double))) {}
  Result<std::unique_ptr<runtime::Instance>> instantiate(const DimBinding& binding) override {
    // A shape that the data decides may be bound by now: the run holds the result against it.
    PERI_ASSIGN(BoundRegion region, region_->bind(binding, true));
    const ir::Graph& g = region.graph();
    for (const ir::Value* v : g.inputs)
      if (!is_const(*v->type.shape))
        return region_->named(invalid("input '%s' has an unbound dimension", v->name.c_str()));
    for (const ir::Value* v : g.outputs)
      if (!binds_ && !is_const(*v->type.shape))
        return region_->named(
            invalid("'%s' has an unbound dimension", v->name.c_str()).but_found(ir::type_text(v->type)));
    return by_definition(std::move(region), weights_, binds_, most_elements_, region_->names());
  }

 private:
  std::shared_ptr<RegionTemplate> region_;
  std::vector<Tensor> weights_;
  bool binds_;
  int64_t most_elements_;
};

Result<std::unique_ptr<runtime::Prepared>> prepare(const runtime::PrepareContext& context) {
  PERI_ASSIGN(RegionPayload payload, read_payload(context.variant->payload));
  PERI_TRY(check_arguments(payload.graph, *context.program, *context.step, true));
  for (const ir::Value* v : payload.graph.inputs)
    if (!v->type.layout.row_major())
      return invalid("the reference takes row-major tensors only").at_node(context.step->name);
  for (const ir::Value* v : payload.graph.outputs)
    if (!v->type.layout.row_major())
      return invalid("the reference makes row-major tensors only").at_node(context.step->name);
  return std::unique_ptr<runtime::Prepared>(std::make_unique<ReferencePrepared>(std::move(payload), context));
}
}  // namespace

extern const Entry reference_entry;
const Entry reference_entry{{"reference", 1, prepare}, true};

}  // namespace peri::exec
