// Executor "cpu": runs a kernel of kernels/cpu as its fixed list of tasks on the session's pool.
#include <algorithm>
#include <mutex>

#include "exec/core/region_payload.hpp"
#include "exec/entry.hpp"
#include "kernels/entry.hpp"

namespace peri::exec {

namespace {
constexpr size_t kAlign = 64;
size_t round_up(size_t v) { return (v + kAlign - 1) / kAlign * kAlign; }

class CpuInstance final : public runtime::Instance {
 public:
  CpuInstance(std::unique_ptr<kernels::Instance> kernel, std::vector<bool> constant) : kernel_(std::move(kernel)), constant_(std::move(constant)) {}
  size_t scratch_bytes(int threads) const override {
    return round_up(kernel_->workspace_bytes()) + static_cast<size_t>(threads) * round_up(kernel_->scratch_bytes());
  }
  Status run(const runtime::RunContext& c) const override {
    std::byte* workspace = c.scratch;
    std::byte* scratch = c.scratch + round_up(kernel_->workspace_bytes());
    const size_t stride = round_up(kernel_->scratch_bytes());
    for (int phase = 0; phase < kernel_->phases(); ++phase) {
      c.pool->run(kernel_->tasks(phase), [&](int64_t task, int worker) {
        kernel_->run_task(phase, task, {c.reads, c.writes, workspace, scratch + static_cast<size_t>(worker) * stride});
      });
    }
    return kernel_->finish({c.reads, c.writes, workspace, scratch});
  }

 private:
  std::unique_ptr<kernels::Instance> kernel_;
  std::vector<bool> constant_;
};

class CpuPrepared final : public runtime::Prepared {
 public:
  CpuPrepared(const kernels::Kernel& kernel, RegionPayload payload, std::vector<Tensor> weights, int threads)
      : kernel_(kernel), payload_(std::move(payload)), weights_(std::move(weights)), machine_(kernels::detect_machine(threads)) {
    for (const Tensor& w : weights_) constant_.push_back(w.defined());
  }
  Result<std::unique_ptr<runtime::Instance>> instantiate(const DimBinding& binding) override {
    PERI_ASSIGN(const ir::Graph concrete, bind_region(payload_.graph, binding));
    const kernels::Problem problem{&concrete, constant_};
    const std::lock_guard<std::mutex> lock(packing_);  // the first instance packs for all
    PERI_ASSIGN(auto made, kernel_.instantiate(problem, payload_.config, {weights_, &packed_, &machine_}));
    return std::unique_ptr<runtime::Instance>(std::make_unique<CpuInstance>(std::move(made), constant_));
  }

 private:
  const kernels::Kernel& kernel_;
  RegionPayload payload_;
  std::vector<Tensor> weights_;
  std::vector<bool> constant_;
  kernels::Machine machine_;
  std::mutex packing_;
  kernels::Packed packed_;
};

// What every kernel relies on: a node that computes from something, results that nodes compute, each once.
Status check_region(const ir::Graph& g) {
  const auto computes = [](const ir::Node* n) { return n->op != "dims_constant"; };
  const auto anchor = std::find_if(g.nodes.begin(), g.nodes.end(), computes);
  if (anchor == g.nodes.end() || !(*anchor)->in(0)) return invalid("a region without a node that computes from an input");
  for (auto v = g.outputs.begin(); v != g.outputs.end(); ++v)
    if (!(*v)->producer || !computes((*v)->producer) || std::find(g.outputs.begin(), v, *v) != v)
      return invalid("result '%s' of a region is not computed by it, or stands twice", (*v)->name.c_str());
  return Ok{};
}

Result<std::unique_ptr<runtime::Prepared>> prepare(const runtime::PrepareContext& context) {
  PERI_ASSIGN(RegionPayload payload, read_payload(context.variant->payload));
  PERI_TRY(check_region(payload.graph));
  PERI_TRY(check_arguments(payload.graph, *context.program, *context.step));
  const kernels::Kernel* kernel = kernels::find(payload.kernel);
  if (!kernel || kernel->executor != "cpu") return refused("kernel '%s' is not in this binary", payload.kernel.c_str()).advise("build the engine again with this version");
  if (kernel->version != payload.version) return refused("kernel '%s' has version %d here", payload.kernel.c_str(), kernel->version).expecting(std::to_string(payload.version)).advise("build the engine again with this version");
  return std::unique_ptr<runtime::Prepared>(std::make_unique<CpuPrepared>(*kernel, std::move(payload), context.weights, context.threads));
}
}  // namespace

extern const Entry cpu_entry;
const Entry cpu_entry{{"cpu", 1, prepare}};

}  // namespace peri::exec
