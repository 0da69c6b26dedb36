// What a kernel states: the problems it takes, why it refuses others, its configurations, and how to make an instance
// that runs as a fixed list of tasks. A problem is a small IR graph; nothing here knows a program or an engine.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.hpp"
#include "device/target.hpp"
#include "ir/graph.hpp"
#include "ops/entry.hpp"

namespace peri::device {
class Device;
}

namespace peri::kernels {

// The machine a candidate is planned for. A kernel knows no other: it detects nothing itself.
using device::Target;

// A region as a graph: inputs and outputs in argument order. Inputs marked constant are weights whose bytes are at hand
// when the instance is made. Dims are numbers.
struct Problem {
  const ir::Graph* graph = nullptr;
  std::vector<bool> constant;  // per graph input
  // The region's anchor: its first node that is not a size (dims_constant); later nodes are its epilogue.
  const ir::Node& anchor() const {
    for (const ir::Node* n : graph->nodes)
      if (n->op != "dims_constant") return *n;
    return *graph->nodes.front();
  }
};

// One way to do a problem. `config` is the kernel's own text ("mr=12 nr=32 slices=4"), with which instantiate() makes
// it.
struct Offer {
  std::string config;
  std::vector<ir::Layout>
      inputs;  // layout wanted for each graph input (row-major for constants: weights are canonical)
  std::vector<ir::Layout> outputs;  // layout given for each graph output
  // Output k may share the memory of input in_place[k]: no element of that input is read after an element of any output
  // was written, but for the very element that is written, whatever the order of tasks, at every size for which this
  // offer is made. -1: no. Empty: none.
  std::vector<int> in_place = {};
  std::string requires_isa = "";  // "" any
  std::string library = "";       // "onednn 3.2.0"
  // The offer holds for these values only (expression over the region's symbols); empty: every shape.
  std::vector<std::pair<Dim, int64_t>> holds_for = {};
  // Multiply-adds (two each) of the algorithm for the region's anchor, where it needs fewer than the definition; 0: as
  // the definition. Floors are those of the algorithm.
  double flops = 0;
  // What the kernel expects it to take on the target, in ms, so that what nobody measured is chosen by more than its
  // place in the list; 0: it does not say.
  double guess_ms = 0;
};

// Pointers in argument order; string tensors do not reach kernels.
struct Args {
  std::span<const void* const> in;  // null for left-out inputs; for weights see Kernel::takes_constants
  std::span<void* const> out;
  std::byte* workspace = nullptr;  // workspace_bytes(), shared by all tasks of a run
  std::byte* scratch = nullptr;    // scratch_bytes() for the worker that runs the task
};

// A problem with concrete dims, ready to run. Immutable; run_task() may be called by many threads at once.
class Instance {
 public:
  virtual ~Instance() = default;
  virtual size_t workspace_bytes() const { return 0; }
  virtual size_t scratch_bytes() const { return 0; }  // for one worker
  virtual int phases() const { return 1; }            // a phase starts when all tasks of the one before are done
  virtual int64_t tasks(int phase) const = 0;         // depends on the problem only
  virtual void run_task(int phase, int64_t task, const Args& args) const = 0;
  // Whether result `output` may take the memory of input `input` at this size, as Offer::in_place says it. Where offers
  // differ from size to size, this is what an engine is held to.
  virtual bool may_take(size_t output, size_t input) const {
    (void)output;
    (void)input;
    return false;
  }
  // After all phases: what a task found wrong in the data (an index out of range), left in the workspace.
  virtual Status finish(const Args&) const { return Ok{}; }
};

// Weights packed once for all shapes of a step (weights/packed.hpp), shared by instances.
using Packed = std::shared_ptr<const void>;

// Where packed weights are kept from process to process. For one step: it knows the step's weights. Thread-safe.
class PackedStore {
 public:
  virtual ~PackedStore() = default;
  // `bytes` bytes at 64-byte alignment as `make` writes them: found, or made now and kept. Errors: kMemory.
  virtual Result<Tensor> get(std::string_view form, int64_t bytes, FunctionRef<void(std::byte*)> make) = 0;
};

// The weights of a problem, one for each graph input, in the types that the inputs state; undefined where an input is
// not constant. A weight that is stored in a narrower type is widened when it is first asked for: a kernel that finds
// its packed form made does not ask. Tensors taken from it may outlive it, references may not.
class Constants {
 public:
  Constants() = default;
  Constants(std::span<const Tensor> all) : all_(all) {}
  Constants(const std::vector<Tensor>& all) : all_(all) {}
  // `at` gives each of `all` in the type its input states.
  Constants(std::span<const Tensor> all, std::function<const Tensor&(size_t)> at) : all_(all), at_(std::move(at)) {}
  size_t size() const { return all_.size(); }
  const Tensor& operator[](size_t k) const { return at_ && all_[k].defined() ? at_(k) : all_[k]; }
  // Every one but those of these inputs, which a kernel has in a form of its own: they are undefined.
  std::vector<Tensor> all_but(const std::vector<int>& packed) const;

 private:
  std::span<const Tensor> all_;
  std::function<const Tensor&(size_t)> at_;
};

struct InstantiateContext {
  Constants constants;
  Packed* packed = nullptr;        // in/out: kept by the executor between instances of one step
  const Target* target = nullptr;  // what the instance is to run on; never null while one is made
  PackedStore* store = nullptr;    // null: packed forms are made anew
  // True while the tuner tries candidates: what is right but slow (a library's own reference) is refused, so that
  // another is chosen. In an engine it runs: a candidate holds at every size for which its offer is made.
  bool choosing = false;
};

// A number that a kernel derives from the problem and that may be set instead: how much of the work a task does, say. A
// configuration names it as "name=value" where it is set. Every value serves every problem, and none changes a result's
// bits, layouts, sharing of memory or the flops: a search turns it without asking the kernel.
struct Tunable {
  std::string_view name, meaning;
  std::vector<int64_t> values;  // the most promising first
};

// Stands last in an offer's configuration where a library chooses when the instance is made: see Kernel::resolve.
constexpr std::string_view kHeuristic = "heuristic";

struct Kernel {
  std::string_view name;              // "gemm_f32"
  int version = 1;                    // raised whenever results or configs change meaning
  std::string_view provider;          // "peri", "onednn", "reference": what `--provider` forces
  std::string_view executor = "cpu";  // the executor that runs its instances
  std::string_view takes;             // one line for docs and `explain`
  // Offers for a problem with concrete dims and a target, which need not be this machine, best guess first; a refusal
  // is an error of kind kRefused with the reason.
  Result<std::vector<Offer>> (*offer)(const Problem& problem, const Target& target) = nullptr;
  // REQUIRES: `config` came from offer() for the same problem up to dims. Must check everything anyway: an engine file
  // may lie.
  Result<std::unique_ptr<Instance>> (*instantiate)(const Problem& problem, std::string_view config,
                                                   const InstantiateContext& context) = nullptr;
  // IR texts of small regions it takes, where no sample of a single op is one (see tune/sample_regions.hpp).
  std::vector<std::string_view> samples = {};
  std::vector<Tunable> tunables = {};
  // For a library that has to be asked how it would do a problem. offer() names the pattern and opens no library: its
  // configuration ends with kHeuristic and holds at every size, since the library is asked when the instance is made.
  // resolve() asks it in the process that tries candidates, for the device on which they are tried (null: the host):
  // configurations, best guess first, in which words named in
  // `resolved` stand in place of kHeuristic. At sizes other than those it was asked about, and where the library takes
  // the choice no more, the instance of such a configuration does what the heuristic one does.
  Result<std::vector<std::string>> (*resolve)(const Problem& problem, std::string_view config, const Target& target,
                                              device::Device* device) = nullptr;
  std::vector<std::string_view> resolved = {};
  // The library that a target has to list ("cublaslt" where it has "cublaslt 13.1"); "": none, or a linked one.
  std::string_view library = "";
  // Weights reach it through InstantiateContext::constants alone, and it reads none through Args. Where it does not say
  // so, one that is stored in a narrower type is widened for as long as the instance lives, and Args points to that.
  bool takes_constants = false;
};
// Whether the target lists the kernel's library, if it needs one.
bool has_library(const Kernel& kernel, const Target& target);

struct Entry {
  Kernel kernel;
};
std::span<const Entry* const> entries();
// Kernels of entries() and those that were added, in that order.
std::vector<const Kernel*> kernels();
const Kernel* find(std::string_view name);
// Adds a kernel that the build did not gather, for as long as the object lives: one of a test, or from outside. Not
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

// Value of `key` in a config text "a=1 b=2"; `fallback` if it is not there. Error if it is not a number in [low, high].
Result<int64_t> config_int(std::string_view config, std::string_view key, int64_t low, int64_t high, int64_t fallback);

// The configuration as offer() gives it: without the kernel's tunables, kHeuristic in place of what was resolved.
std::string derived_config(const Kernel& kernel, std::string_view config);
// Whether resolve() may have made `config` of `offered`: kInvalid where not.
Status check_resolved(const Kernel& kernel, std::string_view offered, std::string_view config);
// Configurations that set one tunable more, each to a value of its list; at most `most`, the first values of all first.
std::vector<std::string> settings_of(const Kernel& kernel, std::string_view config, size_t most);
// The value that `config` sets the tunable to; 0: it is to be derived. Error for a value that is not in its list.
Result<int64_t> setting(const Kernel& kernel, std::string_view config, std::string_view tunable);

// ---- reading problems ----------------------------------------------------------------------------------------------
// Shapes of a concrete value. REQUIRES constant dims.
std::vector<int64_t> dims_of(const ir::Value& v);

}  // namespace peri::kernels
