// The definition of a kernel: the problems that it solves, its reasons for refusing others, its configurations, and how
// to create an instance that runs as a fixed list of tasks. A problem is a small IR graph; programs and engines are
// unknown here.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.hpp"
#include "device/target.hpp"
#include "ir/graph.hpp"
#include "kernels/needs.hpp"
#include "ops/entry.hpp"

namespace peri::device {
class Device;
}

namespace peri::kernels {

// The machine that a candidate is planned for. Kernels use only this and detect nothing themselves.
using device::Target;

// A region as a graph: inputs and outputs in argument order. Inputs marked constant are weights whose bytes are
// available when the instance is created. Dims are numbers.
struct Problem {
  const ir::Graph* graph = nullptr;
  std::vector<bool> constant;  // for each input of the graph
  // The region's anchor: its first node that is not a size; later nodes are its epilogue.
  const ir::Node& anchor() const {
    for (const ir::Node* n : graph->nodes)
      if (!ops::states_sizes(*n)) return *n;
    return *graph->nodes.front();
  }
};

// One way to solve a problem. `config` is the kernel's own text ("mr=12 nr=32 slices=4"), from which instantiate()
// creates it.
struct Offer {
  std::string config;
  std::vector<ir::Layout>
      inputs;  // layout required of each graph input (row-major for constants: weights are canonical)
  std::vector<ir::Layout> outputs;  // layout of each graph output
  // Output k may share the memory of input in_place[k]: once any output element has been written, no other element of
  // that input is read than the one at the same position, in any order of tasks, at every size for which this offer is
  // valid. -1: no. Empty: none.
  std::vector<int> in_place = {};
  std::string requires_isa = "";  // "" any
  std::string library = "";       // "onednn 3.2.0"
  // The offer is valid for these values only (of expressions over the region's symbols); empty: every shape.
  std::vector<std::pair<Dim, int64_t>> holds_for = {};
  // Floating-point operations (two per multiply-add) of the algorithm for the region's anchor, where it needs fewer
  // than the definition; 0: as the definition. Floors are computed from it.
  double flops = 0;
  // The kernel's estimate of the time on the target, in ms, so that unmeasured candidates are not ranked by their order
  // alone; 0: no estimate.
  double guess_ms = 0;
  // Memory and division of work at the problem's sizes, as needs_of() says; none: only the library knows, when the
  // instance is created. Not part of what is stored of an offer.
  std::optional<Needs> needs = {};
};

// Pointers in argument order; string tensors do not reach kernels.
struct Args {
  std::span<const void* const> in;  // null for omitted inputs; for weights see Kernel::takes_constants
  std::span<void* const> out;
  std::byte* workspace = nullptr;  // Needs::workspace bytes, shared by all tasks of a run
  std::byte* scratch = nullptr;    // Needs::scratch bytes for the worker that runs the task
};

// A problem with concrete dims, ready to run. Immutable; run_task() may be called by many threads concurrently.
class Instance {
 public:
  // `needs`: what planning found. Tasks depend on the problem only; a phase starts when all tasks of the previous one
  // are complete.
  explicit Instance(Needs needs) : needs_(std::move(needs)) {}
  virtual ~Instance() = default;
  const Needs& needs() const { return needs_; }
  size_t workspace_bytes() const { return needs_.workspace; }
  size_t scratch_bytes() const { return needs_.scratch; }  // per worker
  int phases() const { return static_cast<int>(needs_.tasks.size()); }
  int64_t tasks(int phase) const { return needs_.tasks[static_cast<size_t>(phase)]; }
  virtual void run_task(int phase, int64_t task, const Args& args) const = 0;
  // Whether output `output` may reuse the memory of input `input` at this size, as in Offer::in_place. Where offers
  // differ between sizes, this is what an engine is checked against.
  virtual bool may_take(size_t output, size_t input) const {
    (void)output;
    (void)input;
    return false;
  }
  // Called after all phases: reports an error that a task found in the data (an index out of range) and left in the
  // workspace.
  virtual Status finish(const Args&) const { return Ok{}; }

 private:
  Needs needs_;
};

// Weights packed once for all shapes of a step (weights/packed.hpp), shared by instances.
using Packed = std::shared_ptr<const void>;

// A store that keeps packed weights across processes. For one step, whose weights it knows. Thread-safe.
class PackedStore {
 public:
  virtual ~PackedStore() = default;
  // `bytes` bytes at 64-byte alignment as written by `make`: loaded, or made now and stored. Errors: kMemory.
  virtual Result<Tensor> get(std::string_view form, int64_t bytes, FunctionRef<void(std::byte*)> make) = 0;
};

// The weights of a problem, one for each graph input, in the types of the inputs; undefined where an input is not
// constant. A weight stored in a narrower type is widened at the first access: a kernel that finds its packed form does
// not access it. Tensors taken from it may outlive it, references may not.
class Constants {
 public:
  Constants() = default;
  Constants(std::span<const Tensor> all) : all_(all) {}
  Constants(const std::vector<Tensor>& all) : all_(all) {}
  // `at` returns each of `all` in the type of its input.
  Constants(std::span<const Tensor> all, std::function<const Tensor&(size_t)> at) : all_(all), at_(std::move(at)) {}
  size_t size() const { return all_.size(); }
  const Tensor& operator[](size_t k) const { return at_ && all_[k].defined() ? at_(k) : all_[k]; }
  // All weights except those of these inputs, which a kernel holds in its own form: they are undefined.
  std::vector<Tensor> all_but(const std::vector<int>& packed) const;

 private:
  std::span<const Tensor> all_;
  std::function<const Tensor&(size_t)> at_;
};

struct InstantiateContext {
  Constants constants;
  Packed* packed = nullptr;        // in/out: kept by the executor for all instances of a step and of steps like it
  const Target* target = nullptr;  // the machine that runs the instance; never null while one is created
  PackedStore* store = nullptr;    // null: packed forms are not stored
  // True while the tuner tries candidates: what is correct but slow (a library's own reference) is refused, so that
  // another is chosen. In an engine it runs: a candidate is valid at every size for which its offer is.
  bool choosing = false;
};

// A number that a kernel derives from the problem and that may be set instead, such as the amount of work per task. A
// configuration contains it as "name=value" where it is set. Every value is valid for every problem, and none changes a
// result's bits, layouts, sharing of memory or the flops: a search varies it without asking the kernel.
struct Tunable {
  std::string_view name, meaning;
  std::vector<int64_t> values;  // the most promising first
};

// The last word of an offer's configuration where a library chooses when the instance is created: see Kernel::resolve.
constexpr std::string_view kHeuristic = "heuristic";

struct Kernel {
  std::string_view name;              // "gemm_f32"
  int version = 1;                    // increased whenever results or the meaning of configs change
  std::string_view provider;          // "peri", "onednn", "reference": what `--provider` forces
  std::string_view executor = "cpu";  // the executor of its instances
  std::string_view takes;             // one line for docs and `explain`
  // Offers for a problem with concrete dims and a target, which need not be this machine, best estimate first; a
  // refusal is an error of kind kRefused with the reason.
  Result<std::vector<Offer>> (*offer)(const Problem& problem, const Target& target) = nullptr;
  // REQUIRES: `config` came from offer() for the same problem up to dims. It must be validated anyway: engine files are
  // untrusted.
  Result<std::unique_ptr<Instance>> (*instantiate)(const Problem& problem, std::string_view config,
                                                   const InstantiateContext& context) = nullptr;
  // The pure half of instantiate(): the needs of an instance, for a problem in the layouts of the offer. Reads no
  // weights. Null: only a library knows them.
  Result<Needs> (*needs)(const Problem& problem, std::string_view config, const Target& target) = nullptr;
  // IR texts of small regions that it solves, where no sample of a single op is one (see tune/sample_regions.hpp).
  std::vector<std::string_view> samples = {};
  std::vector<Tunable> tunables = {};
  // For a library that must be queried for its choice. offer() matches the pattern and opens no library: its
  // configuration ends with kHeuristic and is valid at every size, since the library is queried when the instance is
  // created. resolve() queries it in the process that tries candidates, for the device on which they are tried (null:
  // the host), and returns configurations, best estimate first, in which words named in `resolved` replace kHeuristic.
  // If the library no longer accepts the choice, the instance of such a configuration falls back to the library's
  // heuristic; at other sizes too, or is refused where the library would compile for each.
  Result<std::vector<std::string>> (*resolve)(const Problem& problem, std::string_view config, const Target& target,
                                              device::Device* device) = nullptr;
  std::vector<std::string_view> resolved = {};
  // The library that a target must list ("cublaslt" where it has "cublaslt 13.1"); "": none, or a linked one.
  std::string_view library = "";
  // The kernel reads weights through InstantiateContext::constants only, never through Args. If false, a weight stored
  // in a narrower type is widened for as long as the instance lives, and Args points to the widened copy.
  bool takes_constants = false;
};
// For a kernel whose instance is made of the problem alone: the needs of one without weights.
template <auto kInstantiate>
Result<Needs> needs_from(const Problem& problem, std::string_view config, const Target& target) {
  const std::vector<Tensor> none(problem.graph->inputs.size());
  Packed packed;
  PERI_ASSIGN(const auto made, kInstantiate(problem, config, {none, &packed, &target, nullptr, false}));
  return made->needs();
}
// The problem in the layouts of an offer for it.
ir::Graph placed(const Problem& problem, const Offer& offer);
// The needs of an offer for the problem. Errors: kRefused where only a library knows them, or a value of the weights
// decides; else those of instantiate().
Result<Needs> needs_of(const Kernel& kernel, const Problem& problem, const Offer& offer, const Target& target);

// Whether the target lists the kernel's library, if it needs one.
bool has_library(const Kernel& kernel, const Target& target);

struct Entry {
  Kernel kernel;
};
std::span<const Entry* const> entries();
// Kernels of entries(), then those that were added.
std::vector<const Kernel*> kernels();
const Kernel* find(std::string_view name);
// Adds a kernel that is not part of the build, for the lifetime of the object: one of a test, or an outside kernel. Not
// while an engine is built or run.
class AddedKernel {
 public:
  explicit AddedKernel(const Kernel& kernel);
  ~AddedKernel();
  AddedKernel(const AddedKernel&) = delete;
  AddedKernel& operator=(const AddedKernel&) = delete;

 private:
  const Kernel* kernel_;
};

// Value of `key` in a config text "a=1 b=2"; `fallback` if it is missing. Error if it is not a number in [low, high].
Result<int64_t> config_int(std::string_view config, std::string_view key, int64_t low, int64_t high, int64_t fallback);

// The configuration as returned by offer(): without the kernel's tunables, with kHeuristic in place of what was
// resolved.
std::string derived_config(const Kernel& kernel, std::string_view config);
// kInvalid unless `config` can result from resolve() for `offered`.
Status check_resolved(const Kernel& kernel, std::string_view offered, std::string_view config);
// Configurations with one more tunable set, each to a value of its list; at most `most`, the first value of each
// tunable first.
std::vector<std::string> settings_of(const Kernel& kernel, std::string_view config, size_t most);
// The value that `config` sets the tunable to; 0: to be derived. Error for a value that is not in its list.
Result<int64_t> setting(const Kernel& kernel, std::string_view config, std::string_view tunable);

// ---- reading problems ----------------------------------------------------------------------------------------------
// Shapes of a concrete value. REQUIRES constant dims.
std::vector<int64_t> dims_of(const ir::Value& v);

}  // namespace peri::kernels
