// Executor "cuda": kernels of a GPU of NVIDIA's, whoever provides them. A step's launches are planned for its sizes,
// compiled by NVRTC or found in the cache, loaded, calls of libraries made ready; from then on all is only enqueued.
#include <algorithm>
#include <map>
#include <mutex>

#include "device/cuda/code_shelf.hpp"
#include "device/cuda/cuda.hpp"
#include "exec/cuda_code.hpp"
#include "exec/entry.hpp"
#include "exec/region/checked_region.hpp"
#include "exec/region/emptied.hpp"
#include "exec/region/other_kernel.hpp"
#include "exec/region/region_template.hpp"
#include "kernels/cuda/code/launch.hpp"
#include "plan/sizes.hpp"
#include "runtime/engine.hpp"

namespace peri::exec {

namespace {
namespace cuda = device::cuda;
using kernels::cuda::KernelLaunch;
using kernels::cuda::kWorkspaceAlignment;
static_assert(kWorkspaceAlignment == plan::kWorkspaceAlignment);
using kernels::cuda::LaunchArgument;

// A call of a library, made ready.
struct ReadyCall {
  std::shared_ptr<const kernels::cuda::LibraryWork> work;
  std::vector<LaunchArgument> arguments;
};

// A launch of a loaded kernel.
struct Ready {
  std::shared_ptr<cuda::Module> module;  // lives as long
  cuda::Kernel kernel;
  cuda::Shape shape;
  std::vector<LaunchArgument> arguments;
  std::vector<cuda::Scalar> sizes;
  std::vector<int> order;
};

// Weights in the form that a step's launches read, on the device.
using Packed = std::vector<device::Memory>;

class CudaInstance final : public runtime::Instance {
 public:
  CudaInstance(std::string name, cuda::CudaDevice* device, std::vector<ReadyCall> calls, std::vector<Ready> launches,
               const kernels::cuda::LaunchInstance& plan, std::shared_ptr<const Packed> packed)
      : name_(std::move(name)),
        device_(device),
        calls_(std::move(calls)),
        launches_(std::move(launches)),
        workspace_(plan.workspace_bytes()),
        packed_(std::move(packed)),
        faults_(plan.faults()) {
    size_t most = 0;
    for (const ReadyCall& c : calls_) most = std::max(most, c.work->workspace_bytes());
    workspace_ = std::max(workspace_, most);
    for (const ReadyCall& c : calls_) note(c.arguments);
    for (const Ready& r : launches_) note(r.arguments);
  }
  bool reads_argument(size_t k) const override { return k < reads_.size() && reads_[k]; }
  size_t workspace_bytes() const override { return workspace_; }
  bool may_fault() const override { return !faults_.empty(); }
  Error fault(int32_t word) const override {
    if (word < 1 || static_cast<size_t>(word) > faults_.size()) return Instance::fault(word);
    return faults_[static_cast<size_t>(word) - 1];
  }
  Status enqueue(const runtime::EnqueueContext& c) const override {
    const device::Address workspace = c.workspace.address;
    PERI_CHECK(workspace.value % kWorkspaceAlignment == 0);
    for (const ReadyCall& r : calls_) {
      device::Launch launch{name_, nullptr, arguments_of(r.arguments, c)};
      launch.enqueue = [work = r.work, workspace](const device::NativeQueue& queue) {
        return work->enqueue(queue.arguments, workspace, queue.queue);
      };
      PERI_TRY(c.stream->launch(std::move(launch)));
    }
    for (const Ready& r : launches_) {
      device::Launch launch = device_->launch_of(r.kernel, r.shape, arguments_of(r.arguments, c), r.sizes, r.order);
      launch.name = name_;
      PERI_TRY(c.stream->launch(std::move(launch)));
    }
    return Ok{};
  }

 private:
  void note(const std::vector<LaunchArgument>& list) {
    for (const LaunchArgument& a : list) {
      if (a.from != LaunchArgument::From::kInput) continue;
      if (a.index >= reads_.size()) reads_.resize(a.index + 1, false);
      reads_[a.index] = true;
    }
  }
  std::vector<device::Argument> arguments_of(const std::vector<LaunchArgument>& list,
                                             const runtime::EnqueueContext& c) const {
    std::vector<device::Argument> out;
    for (const LaunchArgument& a : list) {
      if (a.from == LaunchArgument::From::kWorkspace) {
        out.push_back(c.workspace);
        continue;
      }
      if (a.from == LaunchArgument::From::kFault) {
        out.push_back(c.fault);
        continue;
      }
      if (a.from == LaunchArgument::From::kPacked) {
        const device::Memory& m = (*packed_)[a.index];
        out.push_back({m.address(), m.bytes()});
        continue;
      }
      const auto& value = a.from == LaunchArgument::From::kInput ? c.reads[a.index] : c.writes[a.index];
      out.push_back({value.address, value.bytes});
    }
    return out;
  }

  std::string name_;
  cuda::CudaDevice* device_;
  std::vector<ReadyCall> calls_;
  std::vector<Ready> launches_;
  size_t workspace_;
  std::vector<bool> reads_;  // per argument
  std::shared_ptr<const Packed> packed_;
  std::vector<Error> faults_;
};

class CudaPrepared final : public runtime::Prepared {
 public:
  CudaPrepared(const kernels::Kernel& kernel, RegionPayload payload, const runtime::PrepareContext& context,
               cuda::CudaDevice* device)
      : kernel_(kernel),
        config_(std::move(payload.config)),
        region_(RegionTemplate::create(std::move(payload.graph), {context.program, context.step})),
        weights_(context.weights),
        step_(*context.step),
        choosing_(context.options->choosing),
        device_(device) {
    for (const Tensor& w : weights_) constant_.push_back(w.defined());
  }

  Result<std::unique_ptr<runtime::Instance>> instantiate(const DimBinding& binding) override {
    PERI_ASSIGN(const BoundRegion concrete, region_->bind(binding));
    if (any_emptied(region_->region(), concrete.graph())) return at_empty(concrete.graph());
    PERI_ASSIGN(Planned made, planned(concrete.graph()));
    PERI_TRY(check_sharing(*made.instance, *made.kernel, step_));
    return instance_of(std::move(made), weights_);
  }

 private:
  struct Planned {
    const kernels::Kernel* kernel = nullptr;
    std::unique_ptr<kernels::Instance> instance;
    std::shared_ptr<const Packed>* packed = nullptr;  // where the kernel's weights are kept
    std::vector<ReadyCall> calls;                     // the instance's
  };
  Result<std::unique_ptr<runtime::Instance>> instance_of(Planned made, const std::vector<Tensor>& weights) {
    const auto* plan = dynamic_cast<const kernels::cuda::LaunchInstance*>(made.instance.get());
    if (!plan) return internal_error("kernel '%s' gives no launches", std::string(made.kernel->name).c_str());
    std::vector<Ready> launches;
    for (const KernelLaunch& l : plan->launches()) {
      PERI_ASSIGN(launches.emplace_back(), ready(*made.kernel, l));
    }
    PERI_ASSIGN(std::shared_ptr<const Packed> packed, packed_on_device(plan->packed(), weights, made.packed));
    return std::unique_ptr<runtime::Instance>(std::make_unique<CudaInstance>(
        step_.name, device_, std::move(made.calls), std::move(launches), *plan, std::move(packed)));
  }

  // Where a value has no elements: a kernel for the rest, which the definition cannot be on a device.
  Result<std::unique_ptr<runtime::Instance>> at_empty(const ir::Graph& concrete) {
    std::optional<Rest> rest = without_emptied(region_->region(), concrete);
    if (rest && rest->graph.outputs.empty()) return instance_of_rest(nullptr, {}, {});
    if (rest) {
      RestKernel made = kernel_for_rest(kernel_.executor, *rest, weights_, constant_, device_->target(), step_.shares);
      if (made.chosen.kernel) {
        std::shared_ptr<const Packed> packed;
        PERI_ASSIGN(auto part,
                    instance_of({made.chosen.kernel, std::move(made.chosen.instance), &packed, {}}, made.weights));
        return instance_of_rest(std::move(part), std::move(rest->inputs), std::move(rest->outputs));
      }
    }
    return refused("no kernel of the GPU takes a value without elements here")
        .at_node(step_.name)
        .advise("give sizes of at least 1, or build the engine for the host: peri build MODEL -o ENGINE --backend cpu");
  }
  // What the step's kernel was chosen for it, or its library, may refuse at other sizes: an operand of one row there
  // that was whole at the tuned ones. Where candidates are tried that refuses the candidate, in an engine another
  // kernel takes the size.
  Result<Planned> planned(const ir::Graph& concrete) {
    const std::lock_guard<std::mutex> lock(lock_);
    const kernels::Problem problem{&concrete, constant_};
    Planned out{&kernel_, nullptr, &packed_, {}};
    Status done = own(problem, &out);
    if (done.ok()) return out;
    if (choosing_ || done.error().kind != ErrorKind::kRefused) return std::move(done).error().at_node(step_.name);
    OtherKernel other =
        other_kernel(kernel_.executor, &kernel_, problem, {weights_, nullptr, &device_->target(), nullptr, false},
                     [](const auto&, const auto&) { return true; });
    if (other.kernel)
      return Planned{other.kernel, std::move(other.instance), &packed_of_[{other.kernel, other.config}], {}};
    return std::move(done).error().at_node(step_.name);
  }
  Status own(const kernels::Problem& problem, Planned* out) {
    PERI_ASSIGN(out->instance, kernel_.instantiate(problem, config_,
                                                   {weights_, &host_packed_, &device_->target(), nullptr, choosing_}));
    const auto* const plan = dynamic_cast<const kernels::cuda::LaunchInstance*>(out->instance.get());
    if (!plan) return Ok{};
    for (const kernels::cuda::LibraryCall& l : plan->calls()) {
      PERI_ASSIGN(auto work, l.make(*device_));
      out->calls.push_back({std::move(work), l.arguments});
    }
    return Ok{};
  }

  // Goes up once for all sizes that a kernel takes.
  Result<std::shared_ptr<const Packed>> packed_on_device(const std::vector<kernels::cuda::PackedWeight>& wanted,
                                                         const std::vector<Tensor>& weights,
                                                         std::shared_ptr<const Packed>* kept) {
    const std::lock_guard<std::mutex> lock(lock_);
    if (*kept || wanted.empty()) return *kept;
    auto made = std::make_shared<Packed>();
    PERI_ASSIGN(const std::unique_ptr<device::Stream> stream, device_->make_stream());
    for (const kernels::cuda::PackedWeight& w : wanted) {
      auto packed = w.made(weights);
      if (!packed.ok()) return std::move(packed).error().at_node(step_.name);
      const Tensor host = *std::move(packed);
      auto memory = device_->allocate(host.bytes().size());
      if (!memory.ok()) return std::move(memory).error().at_node(step_.name);
      PERI_TRY(stream->copy_in(memory->address(), host.bytes()));
      made->push_back(std::move(*memory));
      PERI_TRY(stream->synchronize());  // before what it is made of goes
    }
    return *kept = std::move(made);
  }

  Result<Ready> ready(const kernels::Kernel& by, const KernelLaunch& l) {
    Ready out;
    PERI_ASSIGN(out.module, module(by, l));
    auto kernel = out.module->kernel(l.entry, static_cast<int>(l.shared_bytes));
    if (!kernel.ok()) {
      Error error = std::move(kernel).error();
      error.message += " ('" + l.entry + "')";
      return std::move(error).at_node(step_.name);
    }
    out.kernel = *std::move(kernel);
    out.shape.blocks[0] = static_cast<unsigned>(l.blocks);
    for (size_t k : {0, 1}) out.shape.blocks[k + 1] = static_cast<unsigned>(l.more_blocks[k]);
    out.shape.threads[0] = static_cast<unsigned>(l.threads);
    out.shape.cluster[0] = static_cast<unsigned>(l.cluster);
    out.shape.shared_bytes = static_cast<unsigned>(l.shared_bytes);
    out.arguments = l.arguments;
    out.order = l.order;
    for (const int64_t size : l.sizes) out.sizes.push_back(cuda::scalar(static_cast<long long>(size)));
    return out;
  }

  // One a text for all sizes of the step.
  Result<std::shared_ptr<cuda::Module>> module(const kernels::Kernel& by, const KernelLaunch& l) {
    const std::lock_guard<std::mutex> lock(lock_);
    std::shared_ptr<cuda::Module>& kept = modules_[l.text];
    if (kept) return kept;
    if (l.form != KernelLaunch::Form::kSource) {
      auto made = device_->load(std::as_bytes(std::span(l.text)));
      if (!made.ok()) return std::move(made).error().at_node(step_.name);
      return kept = *std::move(made);
    }
    PERI_ASSIGN(cuda::CodeShelf* const shelf, cuda::CodeShelf::of_process());
    auto code = shelf->get(source_of(by, l, device_->facts().chip()));
    if (!code.ok()) return std::move(code).error().at_node(step_.name);
    PERI_ASSIGN(std::unique_ptr<cuda::Module> loaded, device_->load(std::as_bytes(std::span((*code)->cubin))));
    return kept = std::move(loaded);
  }

  const kernels::Kernel& kernel_;
  std::string config_;
  std::shared_ptr<RegionTemplate> region_;
  std::vector<Tensor> weights_;
  std::vector<bool> constant_;
  const plan::Step& step_;
  const bool choosing_;
  cuda::CudaDevice* device_;
  std::mutex lock_;
  std::map<std::string, std::shared_ptr<cuda::Module>> modules_;
  kernels::Packed host_packed_;
  std::shared_ptr<const Packed> packed_;
  // Of others and their configurations, for sizes that it refuses.
  std::map<std::pair<const kernels::Kernel*, std::string>, std::shared_ptr<const Packed>> packed_of_;
};

Result<std::unique_ptr<runtime::Prepared>> prepare(const runtime::PrepareContext& context) {
  PERI_ASSIGN(RegionPayload payload, read_payload(context.variant->payload));
  PERI_TRY(check_region(payload.graph));
  PERI_TRY(check_arguments(payload.graph, *context.program, *context.step));
  PERI_ASSIGN(const kernels::Kernel* const kernel, kernel_of(payload, "cuda"));
  auto* const device = dynamic_cast<cuda::CudaDevice*>(context.device);
  if (!device) return invalid("a kernel of a GPU on a device that is none").at_node(context.step->name);
  if (Status chip = kernels::cuda::check_gpu(device->target()); !chip.ok())
    return std::move(chip)
        .error()
        .at_node(context.step->name)
        .advise("build the engine again for what is here: peri build MODEL -o ENGINE --backend cpu");
  return std::unique_ptr<runtime::Prepared>(
      std::make_unique<CudaPrepared>(*kernel, std::move(payload), context, device));
}
}  // namespace

extern const Entry cuda_entry;
const Entry cuda_entry{{"cuda", 1, prepare, "cuda", [](const plan::Variant& v) { return check_kernel(v, "cuda"); }}};

}  // namespace peri::exec
