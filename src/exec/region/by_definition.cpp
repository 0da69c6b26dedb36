// The float64 reference on a run's pointers.
#include "exec/region/by_definition.hpp"

#include <algorithm>

#include "exec/region/emptied.hpp"
#include "ops/entry.hpp"

namespace peri::exec {

namespace {
class ReferenceInstance final : public runtime::Instance {
 public:
  ReferenceInstance(BoundRegion region, std::vector<Tensor> weights, bool binds, int64_t most_elements,
                    ModelNames names)
      : region_(std::move(region)),
        graph_(region_.graph()),
        weights_(std::move(weights)),
        binds_(binds),
        most_elements_(most_elements),
        names_(names) {}

  Status run(const runtime::RunContext& c) const override {
    Status done = compute(c);
    if (!done.ok()) return names_.of(std::move(done).error(), graph_);
    return done;
  }

 private:
  Status compute(const runtime::RunContext& c) const {
    std::vector<ops::RefTensor> in;
    for (size_t k = 0; k < graph_.inputs.size(); ++k) {
      if (!weights_[k].defined() && graph_.inputs[k]->type.dtype == DType::kString) {
        PERI_ASSIGN(ops::RefTensor texts, texts_of(k, c.reads[k]));
        in.push_back(std::move(texts));
        continue;
      }
      PERI_ASSIGN(const Tensor t, argument(k, c.reads[k]));
      in.push_back(ops::to_ref(t));
      in.back().dtype = graph_.inputs[k]->type.dtype;  // a weight may be stored in a narrower type
    }
    PERI_ASSIGN(std::vector<ops::RefTensor> out,
                ops::run_reference(graph_, in, {0, c.pool->threads(), true, {}, most_elements_}));
    for (size_t k = 0; k < out.size(); ++k) PERI_TRY(store(out[k], k, c));
    return Ok{};
  }
  // Texts are copied once, and results of texts not at all.
  Result<ops::RefTensor> texts_of(size_t k, const void* data) const {
    const auto& from = *static_cast<const std::vector<std::string>*>(data);
    PERI_ASSIGN(const std::vector<int64_t> dims, eval(*graph_.inputs[k]->type.shape, {}));
    PERI_ASSIGN(const int64_t n, checked_numel(dims));
    if (static_cast<int64_t>(from.size()) != n)
      return invalid("'%s' does not have as many texts as its shape says", graph_.inputs[k]->name.c_str())
          .expecting(std::to_string(n))
          .but_found(std::to_string(from.size()));
    ops::RefTensor r;
    r.dtype = DType::kString;
    r.dims = dims;
    r.s = from;
    return r;
  }
  Result<Tensor> argument(size_t k, const void* data) const {
    if (weights_[k].defined()) return weights_[k];
    const ir::Type& t = graph_.inputs[k]->type;
    PERI_ASSIGN(const std::vector<int64_t> dims, eval(*t.shape, {}));
    PERI_ASSIGN(const int64_t n, checked_numel(dims));
    PERI_ASSIGN(const int64_t bytes, dtype_bytes(t.dtype, n));
    return Tensor::view(t.dtype, dims, {static_cast<const std::byte*>(data), static_cast<size_t>(bytes)}, nullptr);
  }
  Status store(ops::RefTensor& r, size_t k, const runtime::RunContext& c) const {
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
    if (r.dtype == DType::kString) {
      *static_cast<std::vector<std::string>*>(to) = std::move(r.s);
      return Ok{};
    }
    const Tensor t = ops::from_ref(r);
    if (!t.bytes().empty()) __builtin_memcpy(to, t.data(), t.bytes().size());
    return Ok{};
  }
  BoundRegion region_;
  const ir::Graph& graph_;
  std::vector<Tensor> weights_;
  bool binds_;
  int64_t most_elements_;
  ModelNames names_;
};
}  // namespace

Result<std::unique_ptr<runtime::Instance>> by_definition(BoundRegion region, std::vector<Tensor> weights, bool binds,
                                                         int64_t most_elements, ModelNames names) {
  return std::unique_ptr<runtime::Instance>(
      std::make_unique<ReferenceInstance>(std::move(region), std::move(weights), binds, most_elements, names));
}

Result<std::unique_ptr<runtime::Instance>> reference_instance(RegionTemplate& region, const DimBinding& binding,
                                                              std::vector<Tensor> weights, int64_t most_elements,
                                                              const Error& why) {
  PERI_ASSIGN(BoundRegion bound, region.bind(binding));
  const ir::Graph& g = bound.graph();
  const auto empty = [](const ir::Value* v) {
    return std::any_of(v->type.shape->begin(), v->type.shape->end(), [](const Dim& d) { return d.is_const(0); });
  };
  if (std::all_of(g.outputs.begin(), g.outputs.end(), empty)) return instance_of_rest(nullptr, {}, {});
  for (const auto* list : {&g.inputs, &g.outputs})
    for (const ir::Value* v : *list)
      if (!v->type.layout.row_major()) return why;
  return by_definition(std::move(bound), std::move(weights), false, most_elements, region.names());
}

}  // namespace peri::exec
