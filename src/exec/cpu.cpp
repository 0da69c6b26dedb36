// Executor "cpu": runs a kernel of kernels/cpu as its fixed list of tasks on the session's pool.
#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <set>

#include "base/fault.hpp"
#include "base/hash.hpp"
#include "base/this_program.hpp"
#include "device/running.hpp"
#include "exec/entry.hpp"
#include "exec/region/by_definition.hpp"
#include "exec/region/checked_region.hpp"
#include "exec/region/emptied.hpp"
#include "exec/region/other_kernel.hpp"
#include "exec/region/region_template.hpp"
#include "exec/weights/shared_packed.hpp"
#include "exec/weights/wide_weights.hpp"
#include "kernels/entry.hpp"
#include "runtime/engine.hpp"
#include "runtime/step_share.hpp"

namespace peri::exec {

namespace {
// What a kernel gets in the stead of weights that are stored narrow: by argument, in the type it states, or nothing
// where it takes them when it is made.
using Instead = std::vector<std::pair<size_t, Tensor>>;

class CpuInstance final : public runtime::Instance {
 public:
  CpuInstance(std::unique_ptr<kernels::Instance> kernel, std::shared_ptr<const SharedPacked> packed, Instead instead)
      : kernel_(std::move(kernel)), packed_(std::move(packed)), instead_(std::move(instead)) {}
  runtime::Scratch scratch() const override { return {kernel_->workspace_bytes(), kernel_->scratch_bytes()}; }
  Status run(const runtime::RunContext& c) const override {
    if (instead_.empty()) return run_on(c, c.reads);
    std::array<const void*, 64> few = {};
    std::vector<const void*> many(c.reads.size() > few.size() ? c.reads.size() : 0);
    const std::span<const void*> reads = many.empty() ? std::span(few).first(c.reads.size()) : std::span(many);
    std::copy(c.reads.begin(), c.reads.end(), reads.begin());
    for (const auto& [k, weight] : instead_) reads[k] = weight.defined() ? weight.data() : nullptr;
    return run_on(c, reads);
  }

 private:
  Status run_on(const runtime::RunContext& c, std::span<const void* const> reads) const {
    for (int phase = 0; phase < kernel_->phases(); ++phase) {
      c.run_tasks(kernel_->tasks(phase), [&](int64_t task, int thread) {
        kernel_->run_task(phase, task, {reads, c.writes, c.shared, c.each + static_cast<size_t>(thread) * c.stride});
      });
    }
    if (packed_) PERI_TRY(packed_->check());
    return kernel_->finish({reads, c.writes, c.shared, c.each});
  }

  std::unique_ptr<kernels::Instance> kernel_;
  std::shared_ptr<const SharedPacked> packed_;
  Instead instead_;
};

// Packed weights of steps whose weights are mapped from a file are kept, under a name of all that they depend on, this
// very program too: another build of it may pack in another way. Null: not.
std::shared_ptr<StepStore> store_of(const runtime::PrepareContext& c, const device::Target& target) {
  std::vector<std::pair<Tensor, uint64_t>> weights;
  std::string key = "program " + program_identity() + "\n";
  for (const std::string& isa : target.isas) key += isa + " ";
  for (const std::string& library : target.libraries) key += library + " ";
  for (size_t k = 0; k < c.weights.size(); ++k) {
    if (!c.weights[k].defined()) continue;
    const plan::Weight& w =
        c.program->weights[static_cast<size_t>(c.program->buffers[static_cast<size_t>(c.step->reads[k])].weight)];
    key += format("\n%zu %s %llu %s ", k, hex64(w.hash).c_str(), static_cast<unsigned long long>(w.bytes),
                  std::string(dtype_name(w.dtype)).c_str());
    weights.emplace_back(c.weights[k], w.hash);
  }
  if (!c.drop_weight || weights.empty()) return nullptr;
  auto files = PackedFiles::shared();
  if (!files) return nullptr;
  const auto sound = [weights = std::move(weights)] {
    return std::all_of(weights.begin(), weights.end(),
                       [](const auto& w) { return hash_bytes(w.first.data(), w.first.bytes().size()) == w.second; });
  };
  return std::make_shared<StepStore>(std::move(files), key + "\n" + c.variant->payload, sound);
}

// Weights are packed once for all shapes: by the first instance, for which others wait; later ones do not wait for each
// other.
class Packing {
 public:
  explicit Packing(bool needed) : state_(needed ? State::kNone : State::kDone) {}

  // From the beginning to the end of one instantiation.
  class Turn {
   public:
    explicit Turn(Packing* of) : of_(of) {
      std::unique_lock<std::mutex> lock(of_->mutex_);
      of_->changed_.wait(lock, [&] { return of_->state_ != State::kBusy; });
      first_ = of_->state_ == State::kNone;
      if (first_) of_->state_ = State::kBusy;
      before_ = packed = of_->packed_;
    }
    ~Turn() {
      const std::lock_guard<std::mutex> lock(of_->mutex_);
      if (!of_->packed_ && (done_ || !first_)) of_->packed_ = packed;  // what failed may have packed a part
      if (first_) of_->state_ = done_ ? State::kDone : State::kNone;
      of_->changed_.notify_all();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    void done() { done_ = true; }
    bool first() const { return first_; }
    bool packed_now() const { return packed && !before_; }
    kernels::Packed packed;

   private:
    Packing* of_;
    kernels::Packed before_;
    bool first_ = false, done_ = false;
  };

 private:
  enum class State { kNone, kBusy, kDone };
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_;
  kernels::Packed packed_;
};

// The sizes that a step was chosen at; empty: there are none, the variant is for others, or its arguments would take
// more than a run may.
DimBinding tuned_sizes(const runtime::PrepareContext& c) {
  DimBinding tuned;
  for (const std::string& dim : c.dims) {
    const plan::Program& p = *c.program;
    const auto at = p.tuned_for.find(dim), by_data = p.assumed.find(dim);
    tuned.emplace(dim, by_data != p.assumed.end() ? by_data->second
                       : at != p.tuned_for.end()  ? at->second
                                                  : kAssumedSize);
  }
  for (const auto& [name, size] : tuned)
    if (size < 1) return {};
  for (const auto& [expression, value] : c.variant->holds_for)
    if (const auto now = expression.eval(tuned); !now.ok() || *now != value) return {};
  for (const auto& list : {c.step->reads, c.step->writes})
    for (const int32_t b : list) {
      if (b < 0) continue;
      const auto bytes = c.program->buffers[static_cast<size_t>(b)].bytes.eval(tuned);
      if (!bytes.ok() || *bytes < 0 || *bytes > c.options->memory_limit()) return {};
    }
  return tuned;
}

// Bytes of the largest weight of a step that another step of the program reads too; 0: none.
int64_t used_elsewhere_bytes(const runtime::PrepareContext& c) {
  const auto weight_of = [&](int32_t b) { return b < 0 ? -1 : c.program->buffers[static_cast<size_t>(b)].weight; };
  std::set<int32_t> own;
  for (const int32_t b : c.step->reads)
    if (weight_of(b) >= 0) own.insert(weight_of(b));
  int64_t most = 0;
  for (const plan::Step& other : c.program->steps) {
    if (&other == c.step) continue;
    for (const int32_t b : other.reads)
      if (const int32_t w = weight_of(b); own.contains(w))
        most = std::max(most, static_cast<int64_t>(c.program->weights[static_cast<size_t>(w)].bytes));
  }
  return most;
}

// The weights of a step, as its kernel takes them: one object for all steps of an engine and of its bodies that take
// the same weights for the same problem by the same kernel.
struct StepWeights {
  StepWeights(const runtime::PrepareContext& c, const ir::Graph& region, const device::Target& target, bool any)
      : wide(c.weights, region), packing(any) {
    auto kept = store_of(c, target);
    const int64_t common_bytes = any ? used_elsewhere_bytes(c) : 0;
    auto share = common_bytes > 0 ? c.options->share : nullptr;
    if (kept || share) packed = std::make_shared<SharedPacked>(std::move(share), std::move(kept), common_bytes);
  }
  WideWeights wide;
  std::shared_ptr<SharedPacked> packed;  // null: packed forms are neither stored nor compared
  Packing packing;
};

std::shared_ptr<StepWeights> weights_of(const runtime::PrepareContext& c, const ir::Graph& region,
                                        const device::Target& target, const DimBinding& tuned) {
  const bool any = std::any_of(c.weights.begin(), c.weights.end(), [](const Tensor& w) { return w.defined(); });
  const auto make = [&] { return std::make_shared<StepWeights>(c, region, target, any); };
  if (!any || !c.options->share) return make();
  std::string key = "cpu";
  for (const std::string& isa : target.isas) key += " " + isa;
  for (const auto& [name, size] : tuned) key += format("\n%s=%lld", name.c_str(), static_cast<long long>(size));
  for (size_t k = 0; k < c.weights.size(); ++k)  // where it lies: it is there as long as whoever has the object
    if (const Tensor& w = c.weights[k]; w.defined())
      key += format("\n%zu %p %s", k, w.data(), tensor_type_text(w).c_str());
  return c.options->share->get<StepWeights>(key + "\n" + c.variant->payload, make);
}

class CpuPrepared final : public runtime::Prepared {
 public:
  CpuPrepared(const kernels::Kernel& kernel, RegionPayload payload, const runtime::PrepareContext& context)
      : kernel_(kernel),
        config_(std::move(payload.config)),
        step_(*context.step),
        drop_weight_(context.drop_weight),
        target_(device::running_target(context.threads, libraries()).limited_to(context.variant->requires_isa)),
        tuned_(tuned_sizes(context)),
        weights_(weights_of(context, payload.graph, target_, tuned_)),
        region_(RegionTemplate::create(std::move(payload.graph), {context.program, context.step})),
        choosing_(context.options->choosing) {
    for (const Tensor& w : context.weights) constant_.push_back(w.defined());
    data_sized_ = std::any_of(context.dims.begin(), context.dims.end(),
                              [](const std::string& dim) { return dim.starts_with(kDataDim); });
    most_elements_ = context.options->memory_limit() / static_cast<int64_t>(2 * sizeof(double));
  }
  Result<std::unique_ptr<runtime::Instance>> instantiate(const DimBinding& binding) override {
    Packing::Turn turn(&weights_->packing);
    // What is packed must not hang on which size comes first. A kernel that refuses the tuned size says so below.
    if (turn.first() && !tuned_.empty() && tuned_ != binding)
      (void)contained([&] { return instance_at(tuned_, &turn.packed, nullptr); });
    if (empty_at(binding)) {
      PERI_ASSIGN(const BoundRegion concrete, region_->bind(binding));
      if (any_emptied(region_->region(), concrete.graph())) {
        turn.done();
        return at_empty(binding, concrete.graph());
      }
    }
    Instead instead;
    auto at_size = instance_at(binding, &turn.packed, &instead);
    if (!at_size.ok()) {
      turn.done();
      return otherwise(binding, at_size.error());
    }
    auto made = std::move(*at_size);
    turn.done();
    PERI_TRY(check_sharing(*made, kernel_, step_));
    // What was packed is not read again where it lies in the file.
    for (size_t k = 0; turn.packed_now() && drop_weight_ && k < constant_.size(); ++k)
      if (constant_[k]) drop_weight_(k);
    return std::unique_ptr<runtime::Instance>(
        std::make_unique<CpuInstance>(std::move(made), weights_->packed, std::move(instead)));
  }

 private:
  static bool empty_at(const DimBinding& binding) {
    return std::any_of(binding.begin(), binding.end(), [](const auto& size) { return size.second == 0; });
  }
  // Where a value has no elements: a kernel for the rest, else the definition.
  Result<std::unique_ptr<runtime::Instance>> at_empty(const DimBinding& binding, const ir::Graph& concrete) {
    std::optional<Rest> rest = without_emptied(region_->region(), concrete);
    if (rest && rest->graph.outputs.empty()) return instance_of_rest(nullptr, {}, {});
    if (rest) {
      WideWeights::Turn turn(weights_->wide, target_);
      RestKernel made = kernel_for_rest(kernel_.executor, *rest, turn.constants(), constant_, target_, step_.shares);
      if (const kernels::Kernel* const kernel = made.chosen.kernel) {
        Instead instead;
        for (size_t k = 0; k < rest->inputs.size(); ++k)
          if (weights_->wide.narrow(rest->inputs[k]))
            instead.emplace_back(k, kernel->takes_constants ? Tensor() : made.weights[k]);
        return instance_of_rest(
            std::make_unique<CpuInstance>(std::move(made.chosen.instance), nullptr, std::move(instead)),
            std::move(rest->inputs), std::move(rest->outputs));
      }
    }
    return reference_instance(*region_, binding, weights_->wide.stored(), most_elements_,
                              refused("no kernel takes values without elements"));
  }
  // At a size that the kernel was chosen without: another kernel, else the definition. Where candidates are tried, a
  // refusal refuses the candidate.
  Result<std::unique_ptr<runtime::Instance>> otherwise(const DimBinding& binding, const Error& why) {
    if (!data_sized_ && (choosing_ || why.kind != ErrorKind::kRefused || binding == tuned_)) return why;
    PERI_ASSIGN(const BoundRegion concrete, region_->bind(binding));
    WideWeights::Turn weights(weights_->wide, target_);
    const kernels::Constants constants = weights.constants();
    const auto serves = [&](const kernels::Kernel& kernel, const kernels::Instance& made) {
      return check_sharing(made, kernel, step_).ok();
    };
    OtherKernel other = other_kernel(kernel_.executor, &kernel_, {&concrete.graph(), constant_},
                                     {constants, nullptr, &target_, nullptr, false}, serves);
    if (other.kernel)
      return std::unique_ptr<runtime::Instance>(
          std::make_unique<CpuInstance>(std::move(other.instance), nullptr, instead_of(*other.kernel, constants)));
    return reference_instance(*region_, binding, weights_->wide.stored(), most_elements_, why);
  }
  Instead instead_of(const kernels::Kernel& kernel, const kernels::Constants& constants) const {
    Instead instead;
    for (size_t k = 0; k < constant_.size(); ++k)
      if (weights_->wide.narrow(k)) instead.emplace_back(k, kernel.takes_constants ? Tensor() : constants[k]);
    return instead;
  }
  // `instead`: what its runs get in the stead of narrow weights; null: it will not run.
  Result<std::unique_ptr<kernels::Instance>> instance_at(const DimBinding& binding, kernels::Packed* packed,
                                                         Instead* instead) {
    PERI_ASSIGN(const BoundRegion concrete, region_->bind(binding));
    WideWeights::Turn weights(weights_->wide, target_);
    const kernels::Constants constants = weights.constants();
    PERI_ASSIGN(auto made, kernel_.instantiate({&concrete.graph(), constant_}, config_,
                                               {constants, packed, &target_, weights_->packed.get(), choosing_}));
    if (instead) *instead = instead_of(kernel_, constants);
    return made;
  }

  const kernels::Kernel& kernel_;
  std::string config_;
  std::vector<bool> constant_;
  const plan::Step& step_;
  std::function<void(size_t)> drop_weight_;
  device::Target target_;
  DimBinding tuned_;
  std::shared_ptr<StepWeights> weights_;
  std::shared_ptr<RegionTemplate> region_;
  bool choosing_;
  bool data_sized_ = false;  // a size that it depends on is known only while the model runs
  int64_t most_elements_ = 0;
};

Result<std::unique_ptr<runtime::Prepared>> prepare(const runtime::PrepareContext& context) {
  PERI_ASSIGN(RegionPayload payload, read_payload(context.variant->payload));
  PERI_TRY(check_region(payload.graph));
  PERI_TRY(check_arguments(payload.graph, *context.program, *context.step, true));
  PERI_ASSIGN(const kernels::Kernel* const kernel, kernel_of(payload, "cpu"));
  if (!device::running_target(context.threads, {}).has(context.variant->requires_isa))
    return refused("the step needs %s, which this machine does not have", context.variant->requires_isa.c_str());
  return std::unique_ptr<runtime::Prepared>(std::make_unique<CpuPrepared>(*kernel, std::move(payload), context));
}
}  // namespace

extern const Entry cpu_entry;
const Entry cpu_entry{
    {"cpu", 1, prepare, plan::kHostDevice, [](const plan::Variant& v) { return check_kernel(v, "cpu"); }}};

}  // namespace peri::exec
