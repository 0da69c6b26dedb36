// Executor "reference": the float64 reference of the ops, rounded to each value's type. Slow and always right: the last
// resort of a backend, and the only one that takes data-dependent shapes and strings so far. It reads all arguments
// before it writes: results may take their memory.
#include "exec/entry.hpp"
#include "exec/region/region_payload.hpp"
#include "exec/region/region_template.hpp"
#include "ops/entry.hpp"
#include "runtime/engine.hpp"

namespace peri::exec {

namespace {
class ReferenceInstance final : public runtime::Instance {
 public:
  ReferenceInstance(BoundRegion region, std::vector<Tensor> weights, bool binds, int64_t most_elements)
      : region_(std::move(region)),
        graph_(region_.graph()),
        weights_(std::move(weights)),
        binds_(binds),
        most_elements_(most_elements) {}

  Status run(const runtime::RunContext& c) const override {
    std::vector<ops::RefTensor> in;
    for (size_t k = 0; k < graph_.inputs.size(); ++k) {
      PERI_ASSIGN(const Tensor t, argument(k, c.reads[k]));
      in.push_back(ops::to_ref(t));
      in.back().dtype = graph_.inputs[k]->type.dtype;  // a weight may be stored in a narrower type
    }
    PERI_ASSIGN(const std::vector<ops::RefTensor> out,
                ops::run_reference(graph_, in, {0, c.pool->threads(), true, {}, most_elements_}));
    for (size_t k = 0; k < out.size(); ++k) PERI_TRY(store(out[k], k, c));
    return Ok{};
  }

 private:
  Result<Tensor> argument(size_t k, const void* data) const {
    if (weights_[k].defined()) return weights_[k];
    const ir::Type& t = graph_.inputs[k]->type;
    PERI_ASSIGN(const std::vector<int64_t> dims, eval(*t.shape, {}));
    if (t.dtype == DType::kString) return Tensor::strings(dims, *static_cast<const std::vector<std::string>*>(data));
    PERI_ASSIGN(const int64_t n, checked_numel(dims));
    PERI_ASSIGN(const int64_t bytes, dtype_bytes(t.dtype, n));
    return Tensor::view(t.dtype, dims, {static_cast<const std::byte*>(data), static_cast<size_t>(bytes)}, nullptr);
  }
  Status store(const ops::RefTensor& r, size_t k, const runtime::RunContext& c) const {
    void* to = c.writes[k];
    if (binds_) {
      PERI_ASSIGN(to, c.binder->bind_output(k, r.dims));
    } else {  // the memory is laid out for the stated shape; the data may have made another
      PERI_ASSIGN(const std::vector<int64_t> stated, eval(*graph_.outputs[k]->type.shape, {}));
      if (r.dims != stated)
        return invalid("a result does not have its stated shape")
            .at_node(graph_.outputs[k]->name)
            .expecting(shape_text(Shape(stated.begin(), stated.end())))
            .but_found(shape_text(Shape(r.dims.begin(), r.dims.end())));
    }
    const Tensor t = ops::from_ref(r);
    if (r.dtype == DType::kString)
      *static_cast<std::vector<std::string>*>(to) = t.string_values();
    else if (!t.bytes().empty())
      __builtin_memcpy(to, t.data(), t.bytes().size());
    return Ok{};
  }
  BoundRegion region_;
  const ir::Graph& graph_;
  std::vector<Tensor> weights_;
  bool binds_;
  int64_t most_elements_;
};

class ReferencePrepared final : public runtime::Prepared {
 public:
  ReferencePrepared(RegionPayload payload, const runtime::PrepareContext& c)
      : region_(RegionTemplate::create(std::move(payload.graph))),
        weights_(c.weights),
        binds_(!c.step->binds.empty()),
        most_elements_(c.options->memory_limit() / static_cast<int64_t>(2 * sizeof(double))) {}
  Result<std::unique_ptr<runtime::Instance>> instantiate(const DimBinding& binding) override {
    // A shape that the data decides may be bound by now: store() holds the result against it.
    PERI_ASSIGN(BoundRegion region, region_->bind(binding, true));
    const ir::Graph& g = region.graph();
    for (const ir::Value* v : g.inputs)
      if (!is_const(*v->type.shape)) return invalid("input '%s' of a step has an unbound dimension", v->name.c_str());
    for (const ir::Value* v : g.outputs)
      if (!binds_ && !is_const(*v->type.shape))
        return invalid("'%s' has an unbound dimension", v->name.c_str()).but_found(ir::type_text(v->type));
    return std::unique_ptr<runtime::Instance>(
        std::make_unique<ReferenceInstance>(std::move(region), weights_, binds_, most_elements_));
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
const Entry reference_entry{{"reference", 1, prepare}};

}  // namespace peri::exec
