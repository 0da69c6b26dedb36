// Executor "null": steps on the null device. A launch computes the float64 reference of the step's region, whatever
// kernel the payload names, from arguments in the layouts that the region states, in the device's memory. It reads all
// arguments before it writes: results may take their memory.
#include <cstring>

#include "exec/entry.hpp"
#include "exec/region/layouts.hpp"
#include "exec/region/region_payload.hpp"
#include "exec/region/region_template.hpp"
#include "ops/entry.hpp"
#include "runtime/engine.hpp"

namespace peri::exec {

namespace {
// What a launch needs of a step at one size.
class Region {
 public:
  Region(BoundRegion region, int threads, int64_t most_elements, ModelNames names)
      : region_(std::move(region)), threads_(threads), most_elements_(most_elements), names_(names) {}

  Status compute(std::span<const std::span<std::byte>> arguments) const {
    Status done = by_reference(arguments);
    if (!done.ok()) return names_.of(std::move(done).error(), region_.graph());
    return done;
  }

 private:
  Status by_reference(std::span<const std::span<std::byte>> arguments) const {
    const ir::Graph& g = region_.graph();
    std::vector<ops::RefTensor> in;
    for (size_t k = 0; k < g.inputs.size(); ++k) {
      const ir::Type& type = g.inputs[k]->type;
      PERI_ASSIGN(const std::vector<int64_t> dims, eval(*type.shape, {}));
      PERI_ASSIGN(const Tensor stored,
                  Tensor::view(type.dtype, physical_dims(dims, type.layout), arguments[k], nullptr));
      PERI_ASSIGN(const Tensor t, from_layout(stored, type.layout, dims));
      in.push_back(ops::to_ref(t));
    }
    PERI_ASSIGN(const std::vector<ops::RefTensor> out,
                ops::run_reference(g, in, {0, threads_, true, {}, most_elements_}));
    for (size_t k = 0; k < out.size(); ++k) PERI_TRY(store(out[k], *g.outputs[k], arguments[g.inputs.size() + k]));
    return Ok{};
  }
  static Status store(const ops::RefTensor& r, const ir::Value& v, std::span<std::byte> to) {
    PERI_ASSIGN(const std::vector<int64_t> stated, eval(*v.type.shape, {}));
    PERI_ASSIGN(const Tensor t, to_layout(ops::from_ref(r), v.type.layout));
    if (r.dims != stated || t.bytes().size() != to.size())
      return invalid("a result does not have its stated shape")
          .at_node(v.name)
          .expecting(shape_text(Shape(stated.begin(), stated.end())))
          .but_found(shape_text(Shape(r.dims.begin(), r.dims.end())));
    if (!to.empty()) std::memcpy(to.data(), t.bytes().data(), to.size());
    return Ok{};
  }

  BoundRegion region_;
  int threads_;
  int64_t most_elements_;
  ModelNames names_;
};

class NullInstance final : public runtime::Instance {
 public:
  NullInstance(std::string name, std::shared_ptr<const Region> region)
      : name_(std::move(name)), region_(std::move(region)) {}
  Status enqueue(const runtime::EnqueueContext& c) const override {
    device::Launch launch;
    launch.name = name_;
    launch.function = [region = region_](std::span<const std::span<std::byte>> a) { return region->compute(a); };
    for (const auto& list : {c.reads, c.writes})
      for (const auto& a : list) launch.arguments.push_back({a.address, a.bytes});
    return c.stream->launch(std::move(launch));
  }

 private:
  std::string name_;
  std::shared_ptr<const Region> region_;
};

class NullPrepared final : public runtime::Prepared {
 public:
  NullPrepared(RegionPayload payload, const runtime::PrepareContext& c)
      : name_(c.step->name),
        region_(RegionTemplate::create(std::move(payload.graph), {c.program, c.step})),
        threads_(c.threads),
        most_elements_(c.options->memory_limit() / static_cast<int64_t>(2 * sizeof(double))) {}
  Result<std::unique_ptr<runtime::Instance>> instantiate(const DimBinding& binding) override {
    PERI_ASSIGN(BoundRegion bound, region_->bind(binding, true));
    for (const auto* list : {&bound.graph().inputs, &bound.graph().outputs})
      for (const ir::Value* v : *list)
        if (!is_const(*v->type.shape))
          return region_->named(
              invalid("'%s' has an unbound dimension", v->name.c_str()).but_found(ir::type_text(v->type)));
    auto region = std::make_shared<const Region>(std::move(bound), threads_, most_elements_, region_->names());
    return std::unique_ptr<runtime::Instance>(std::make_unique<NullInstance>(name_, std::move(region)));
  }

 private:
  std::string name_;
  std::shared_ptr<RegionTemplate> region_;
  int threads_;
  int64_t most_elements_;
};

Result<std::unique_ptr<runtime::Prepared>> prepare(const runtime::PrepareContext& context) {
  PERI_ASSIGN(RegionPayload payload, read_payload(context.variant->payload));
  PERI_TRY(check_arguments(payload.graph, *context.program, *context.step));
  return std::unique_ptr<runtime::Prepared>(std::make_unique<NullPrepared>(std::move(payload), context));
}
}  // namespace

extern const Entry null_entry;
const Entry null_entry{{"null", 1, prepare, "null"}, true};

}  // namespace peri::exec
