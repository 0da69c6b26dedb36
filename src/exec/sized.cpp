// Executor "sized": steps whose results are as large as the data says. Ops that select are run in their own types; ops
// that a few integers tell the sizes of (Slice, Expand, Range, Reshape, ... by values of the run) are bound to these
// and run by the first kernel that takes them there; what these alone decide (ConstantOfShape, windows) is made once
// for as long as they stay. What neither takes runs by definition. Payload as of the reference, with the name "sized".
#include <algorithm>
#include <cstring>

#include "base/fault.hpp"
#include "device/running.hpp"
#include "exec/entry.hpp"
#include "exec/region/by_definition.hpp"
#include "exec/region/region_payload.hpp"
#include "exec/sized/selection.hpp"
#include "kernels/entry.hpp"
#include "ops/entry.hpp"
#include "runtime/engine.hpp"

namespace peri::exec {

namespace {
constexpr int64_t kMaxTold = 64;  // elements of an argument that may tell sizes

bool tells(const ir::Value& v) {
  if (v.type.dtype != DType::kI64 && v.type.dtype != DType::kI32) return false;
  const auto dims = eval(*v.type.shape, {});
  const auto count = dims.ok() ? checked_numel(*dims) : Result<int64_t>(kMaxTold + 1);
  return count.ok() && *count <= kMaxTold;
}

// A region at sizes that values told, with a kernel for it; where these values are all that it reads, with its results.
struct AtValues {
  ir::Graph graph;
  std::unique_ptr<kernels::Instance> kernel;
  std::vector<std::vector<int64_t>> results;
  std::vector<Tensor> made;
  std::vector<bool> zeros = {};  // all bytes of a result are 0
};

class SizedInstance final : public runtime::Instance {
 public:
  SizedInstance(BoundRegion region, std::vector<Tensor> weights, device::Target target, int64_t most_elements,
                std::unique_ptr<runtime::Instance> otherwise)
      : region_(std::move(region)),
        graph_(region_.graph()),
        weights_(std::move(weights)),
        target_(std::move(target)),
        most_elements_(most_elements),
        selection_(selection_of(graph_)),
        otherwise_(std::move(otherwise)) {}

  Status run(const runtime::RunContext& c) const override {
    if (selection_) return selection_(call_of(graph_, c));
    PERI_ASSIGN(const std::shared_ptr<const AtValues> at, at_values(c));
    return at ? run_kernel(*at, c) : otherwise_->run(c);
  }

 private:
  // Null: the values do not decide the sizes, or no kernel takes what they make of it.
  Result<std::shared_ptr<const AtValues>> at_values(const runtime::RunContext& c) const {
    std::string key;
    for (size_t k = 0; k < graph_.inputs.size(); ++k)
      if (const ir::Value& v = *graph_.inputs[k]; tells(v) && !weights_[k].defined()) {
        PERI_ASSIGN(const std::vector<int64_t> dims, eval(*v.type.shape, {}));
        PERI_ASSIGN(const int64_t count, checked_numel(dims));
        const auto bytes = static_cast<size_t>(count * dtype_bits(v.type.dtype) / 8);
        key.append(static_cast<const char*>(c.reads[k]), bytes);
      }
    const std::lock_guard<std::mutex> lock(mutex_);
    if (made_ && key == key_) return made_;
    auto made = contained([&] { return make(c); });
    if (!made.ok()) return std::shared_ptr<const AtValues>();
    key_ = std::move(key);
    made_ = std::move(made).value();
    return made_;
  }

  Result<std::shared_ptr<const AtValues>> make(const runtime::RunContext& c) const {
    auto out = std::make_shared<AtValues>();
    out->graph = graph_.clone();
    ir::Graph& g = out->graph;
    std::vector<bool> constant(g.inputs.size());
    std::vector<Tensor> constants(g.inputs.size());
    for (size_t k = 0; k < g.inputs.size(); ++k) {
      ir::Value* v = g.inputs[k];
      constant[k] = weights_[k].defined();
      constants[k] = weights_[k];
      if (constant[k] || !tells(*v)) continue;
      PERI_ASSIGN(const std::vector<int64_t> dims, eval(*v->type.shape, {}));
      PERI_ASSIGN(Tensor t, Tensor::zeros(v->type.dtype, dims));
      std::memcpy(t.mutable_data(), c.reads[k], t.bytes().size());
      std::vector<Dim> content;
      for (int64_t n = 0; n < t.numel(); ++n) content.emplace_back(t.i64(n));
      ir::Value* told = g.add_constant(v->name + ".told", t);
      told->content = std::move(content);
      for (ir::Node* n : g.nodes)
        for (size_t p = 0; p < n->inputs.size(); ++p)
          if (n->inputs[p] == v) g.set_input(n, p, told);
    }
    PERI_TRY(ops::infer_graph(g));
    for (const ir::Value* v : g.outputs) {
      PERI_ASSIGN(std::vector<int64_t> dims, eval(*v->type.shape, {}));
      PERI_ASSIGN(const int64_t n, checked_numel(dims));
      if (n == 0 || n > most_elements_) return refused("a result is empty, or too large");
      out->results.push_back(std::move(dims));
    }
    for (const ir::Value* v : g.inputs)
      if (product(*v->type.shape).is_const(0)) return refused("an argument is empty");
    if (std::all_of(g.inputs.begin(), g.inputs.end(), [](const ir::Value* v) { return v->users.empty(); })) {
      std::vector<ops::RefTensor> in(g.inputs.size());
      PERI_ASSIGN(const std::vector<ops::RefTensor> results,
                  ops::run_reference(g, in, {0, c.pool->threads(), true, {}, most_elements_}));
      for (const ops::RefTensor& r : results) {
        out->made.push_back(ops::from_ref(r));
        const std::span<const std::byte> bytes = out->made.back().bytes();
        out->zeros.push_back(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }));
      }
      return std::shared_ptr<const AtValues>(std::move(out));
    }
    PERI_ASSIGN(out->kernel, kernel_for({&g, constant}, constants));
    return std::shared_ptr<const AtValues>(std::move(out));
  }

  Result<std::unique_ptr<kernels::Instance>> kernel_for(const kernels::Problem& problem,
                                                        const std::vector<Tensor>& constants) const {
    for (const kernels::Kernel* k : kernels::kernels()) {
      if (k->executor != "cpu" || k->provider != "peri") continue;
      const auto offers = k->offer(problem, target_);
      if (!offers.ok()) continue;
      for (const kernels::Offer& o : *offers) {
        const auto plain = [](const ir::Layout& l) { return l.row_major(); };
        if (!std::all_of(o.inputs.begin(), o.inputs.end(), plain) ||
            !std::all_of(o.outputs.begin(), o.outputs.end(), plain) || !target_.has(o.requires_isa))
          continue;
        kernels::Packed packed;
        auto made =
            k->instantiate(problem, o.config, {kernels::Constants(constants), &packed, &target_, nullptr, false});
        if (made.ok()) return made;
      }
    }
    return refused("no kernel takes it");
  }

  Status run_kernel(const AtValues& at, const runtime::RunContext& c) const {
    std::vector<void*> writes(c.writes.begin(), c.writes.end());
    for (size_t k = 0; k < at.results.size(); ++k) {
      PERI_ASSIGN(writes[k], c.binder->bind_output(k, at.results[k]));
    }
    if (!at.kernel) {
      for (size_t k = 0; k < at.made.size(); ++k) copy(at.made[k], at.zeros[k], writes[k], c);
      return Ok{};
    }
    const kernels::Instance& kernel = *at.kernel;
    const size_t each = (kernel.scratch_bytes() + 63) / 64 * 64, shared = (kernel.workspace_bytes() + 63) / 64 * 64;
    PERI_ASSIGN(
        Tensor room,
        Tensor::zeros(DType::kU8, {static_cast<int64_t>(shared + each * static_cast<size_t>(c.pool->threads()) + 64)}));
    std::byte* memory = room.mutable_data();
    memory += (64 - reinterpret_cast<uintptr_t>(memory) % 64) % 64;
    for (int phase = 0; phase < kernel.phases(); ++phase)
      c.run_tasks(kernel.tasks(phase), [&](int64_t task, int thread) {
        kernel.run_task(phase, task, {c.reads, writes, memory, memory + shared + static_cast<size_t>(thread) * each});
      });
    return kernel.finish({c.reads, writes, memory, memory + shared});
  }

  static void copy(const Tensor& from, bool zeros, void* to, const runtime::RunContext& c) {
    constexpr size_t kEach = 1 << 17;  // bytes: a task is worth handing out. Not varied
    const std::span<const std::byte> bytes = from.bytes();
    c.run_tasks(static_cast<int64_t>((bytes.size() + kEach - 1) / kEach), [&](int64_t task, int) {
      const size_t at = static_cast<size_t>(task) * kEach;
      const size_t count = std::min(kEach, bytes.size() - at);
      if (zeros)
        std::memset(static_cast<std::byte*>(to) + at, 0, count);
      else
        std::memcpy(static_cast<std::byte*>(to) + at, bytes.data() + at, count);
    });
  }

  BoundRegion region_;
  const ir::Graph& graph_;
  std::vector<Tensor> weights_;
  device::Target target_;
  int64_t most_elements_;
  Selection selection_;
  std::unique_ptr<runtime::Instance> otherwise_;
  mutable std::mutex mutex_;
  mutable std::string key_;
  mutable std::shared_ptr<const AtValues> made_;
};

class SizedPrepared final : public runtime::Prepared {
 public:
  SizedPrepared(RegionPayload payload, const runtime::PrepareContext& c)
      : region_(RegionTemplate::create(std::move(payload.graph), {c.program, c.step})),
        weights_(c.weights),
        target_(device::running_target(c.threads, libraries())),
        most_elements_(c.options->memory_limit() / static_cast<int64_t>(2 * sizeof(double))),
        binds_(!c.step->binds.empty()) {}
  Result<std::unique_ptr<runtime::Instance>> instantiate(const DimBinding& binding) override {
    PERI_ASSIGN(BoundRegion region, region_->bind(binding, true));
    PERI_ASSIGN(BoundRegion again, region_->bind(binding, true));
    for (const ir::Value* v : region.graph().inputs)
      if (!is_const(*v->type.shape))
        return region_->named(invalid("input '%s' has an unbound dimension", v->name.c_str()));
    PERI_ASSIGN(auto otherwise, by_definition(std::move(again), weights_, binds_, most_elements_, region_->names()));
    return std::unique_ptr<runtime::Instance>(
        std::make_unique<SizedInstance>(std::move(region), weights_, target_, most_elements_, std::move(otherwise)));
  }

 private:
  std::shared_ptr<RegionTemplate> region_;
  std::vector<Tensor> weights_;
  device::Target target_;
  int64_t most_elements_;
  bool binds_;
};

Result<std::unique_ptr<runtime::Prepared>> prepare(const runtime::PrepareContext& context) {
  PERI_ASSIGN(RegionPayload payload, read_payload(context.variant->payload));
  PERI_TRY(check_arguments(payload.graph, *context.program, *context.step));
  PERI_TRY(refuse_sharing(*context.step));
  for (const auto* list : {&payload.graph.inputs, &payload.graph.outputs})
    for (const ir::Value* v : *list)
      if (!v->type.layout.row_major() || v->type.dtype == DType::kString)
        return invalid("executor 'sized' takes row-major tensors of numbers only").at_node(context.step->name);
  return std::unique_ptr<runtime::Prepared>(std::make_unique<SizedPrepared>(std::move(payload), context));
}
}  // namespace

extern const Entry sized_entry;
const Entry sized_entry{{"sized", 1, prepare}, false, true};

}  // namespace peri::exec
