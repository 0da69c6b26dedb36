// Makes the buffers, the copies and the step.
#include "tune/one_step.hpp"

#include "exec/region/region_payload.hpp"
#include "tune/layouts.hpp"

namespace peri::tune {

namespace {
struct Maker {
  uint32_t device = plan::kHost;
  OneStep out = {};

  Result<int32_t> buffer(const ir::Value& v, const ir::Layout& layout, plan::BufferKind kind) {
    plan::Buffer b;
    b.name = v.name + (kind == plan::BufferKind::kWeight ? " given" : "");
    b.kind = kind;
    b.device = device;
    b.dtype = v.type.dtype;
    b.shape = *v.type.shape;
    b.layout = exec::layout_code(layout);
    PERI_ASSIGN(const int64_t count, checked_numel(physical_dims(kernels::dims_of(v), layout)));
    PERI_ASSIGN(const int64_t bytes, dtype_bytes(v.type.dtype, count));
    b.bytes = Dim(bytes);
    out.program.buffers.push_back(std::move(b));
    return static_cast<int32_t>(out.program.buffers.size()) - 1;
  }

  Result<int32_t> given(const ir::Value& v, const ir::Layout& layout) {
    PERI_ASSIGN(const int32_t k, buffer(v, layout, plan::BufferKind::kWeight));
    plan::Buffer& b = out.program.buffers[static_cast<size_t>(k)];
    b.weight = static_cast<int32_t>(out.program.weights.size());
    plan::Weight w;
    w.name = b.name;
    w.dtype = b.dtype;
    w.dims = physical_dims(kernels::dims_of(v), layout);
    w.bytes = static_cast<uint64_t>(b.bytes.value());
    out.program.weights.push_back(std::move(w));
    return k;
  }

  Result<int32_t> argument(const ir::Value& v, const ir::Layout& layout) {
    PERI_ASSIGN(const int32_t from, given(v, layout));
    PERI_ASSIGN(const int32_t to, buffer(v, layout, plan::BufferKind::kScratch));
    plan::Step copy;
    copy.name = "bring " + v.name;
    copy.executor = plan::kCopyExecutor;
    copy.device = device;
    copy.reads = {from};
    copy.writes = {to};
    copy.variants.emplace_back();
    out.program.steps.push_back(std::move(copy));
    return to;
  }
};
}  // namespace

Result<OneStep> one_step(const ir::Graph& region, const std::vector<bool>& weights, const Candidate& c,
                         const std::vector<int>& shared, const std::string& device) {
  Maker m;
  if (device != "host") {
    m.out.program.devices.push_back(device);
    m.device = 1;
  }
  ir::Graph g = region.clone();
  for (size_t k = 0; k < g.inputs.size(); ++k) {
    const ir::Layout& layout = c.offer.inputs[k];
    g.inputs[k]->type.layout = layout;
    PERI_ASSIGN(const int32_t b,
                weights[k] ? m.given(*region.inputs[k], layout) : m.argument(*region.inputs[k], layout));
    m.out.arguments.push_back(b);
  }
  plan::Step step;
  step.name = "candidate";
  step.executor = c.kernel->executor;
  step.device = m.device;
  step.reads = m.out.arguments;
  for (size_t k = 0; k < g.outputs.size(); ++k) {
    g.outputs[k]->type.layout = c.offer.outputs[k];
    PERI_ASSIGN(const int32_t b, m.buffer(*region.outputs[k], c.offer.outputs[k], plan::BufferKind::kScratch));
    if (shared[k] >= 0)
      m.out.program.buffers[static_cast<size_t>(b)].alias_of = m.out.arguments[static_cast<size_t>(shared[k])];
    step.writes.push_back(b);
  }
  step.shares.assign(shared.begin(), shared.end());
  step.variants.push_back({c.offer.requires_isa,
                           c.offer.library,
                           {},
                           exec::write_payload(c.kernel->name, c.kernel->version, c.offer.config, g)});
  m.out.results = step.writes;
  m.out.step = m.out.program.steps.size();
  m.out.program.steps.push_back(std::move(step));
  return std::move(m.out);
}

}  // namespace peri::tune
