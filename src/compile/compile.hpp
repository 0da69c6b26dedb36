// Compiles a model file or folder to a program with weights: importer, passes, backend. Reports its decisions.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lower/lower.hpp"
#include "passes/pipeline.hpp"
#include "plan/lock_file.hpp"

namespace peri::compile {

// The shape of an input in later runs. A name that no input has refers to the input at this index.
struct InputShape {
  std::string name;
  std::vector<int64_t> dims;
};

struct Options {
  std::string model;                     // ONNX file or Hugging Face folder
  std::string backend = "auto";          // a name of backends.hpp, or "auto"
  std::string device = {};               // "cuda:1": which of several devices the backend builds for; "": the first
  bool strict_placement = false;         // a step that must run on the host beside the backend's device is an error
  std::map<std::string, int64_t> dims;   // --dims: dimension names, INPUT.AXIS, "batch", "sequence"
  std::vector<InputShape> at_hand = {};  // inputs of later runs: their sizes are used where none are given
  std::map<std::string, int64_t> min_dims,
      max_dims;  // the smallest and largest sizes of runs: every choice must be valid there too
  std::vector<std::string> disabled_passes;
  DType dtype = DType::kInvalid;     // --dtype: storage type of weights, f32, f16 or bf16; kInvalid: the model's own
  DType io_dtype = DType::kInvalid;  // --io-dtype: of inputs and outputs, the same three; kInvalid: the model's own
  std::string dump_dir;              // graph after each pass, "" none
  // --fix: inputs that are constants, by name; the section kFixedSection of the program holds them.
  std::map<std::string, std::string> fixed;
  tune::Options tune;
  std::optional<plan::Lock> lock;  // use its choices, dims, passes and provider; measure nothing
  std::string builder;             // version text for the engine
  std::function<void(size_t done, size_t total, const std::string& what)> progress;
  std::function<void(const std::string& line)> log = {};  // called with lines for a log
  // Called with the imported model, with inputs of the types that a run will use, before any work on it; null: all are
  // built.
  std::function<Status(const ir::Graph& imported)> admits = {};
  std::function<Status(const DimBinding& sizes, double bytes)> affords = {};  // as in lower::Options
};

// The graph as imported, before any pass, with its companions.
struct Imported {
  ir::Graph graph;
  std::vector<plan::Section> sections;  // tokenizer and pipeline of a text model
  std::vector<std::string> notes;       // what a user should know
  std::function<Status()> check_files;  // kIo if a file was truncated since it was mapped; empty: no files
};
// Sizes for the dimensions that the model's structure depends on, if any (pinned.hpp): by any name, else those of
// inputs.
struct ImportSizes {
  std::map<std::string, int64_t> dims = {};
  std::vector<InputShape> at_hand = {};
  std::map<std::string, int64_t> least = {};  // the smallest sizes: a dimension of 0 here, or in `dims`, may be 0
};
Result<Imported> import_any(const std::string& model, const std::map<std::string, std::string>& fixed = {},
                            const ImportSizes& sizes = {});

// A line NAME=VALUE for each input that was fixed.
constexpr std::string_view kFixedSection = "fixed";

struct Compiled {
  plan::Program program;  // with the section "source": IR text after the passes
  std::vector<Tensor> weights;
  std::vector<std::string> notes;  // of the importer first
  int64_t import_notes = 0;        // of these
  std::vector<passes::PassReport> passes;
  std::vector<lower::StepReport> steps;
  std::vector<lower::HostRegion> on_host;  // in addition to the backend's device
  double predicted_ms = 0, conversion_ms = 0, import_seconds = 0, passes_seconds = 0;
  double tune_seconds = 0;  // of all lowering by this compilation
  tune::Tuner::Stats tuned;
  std::vector<DimBinding> bounds;  // the smallest and largest sizes it was checked for, if given
  plan::Lock lock;                 // every choice
};
// A model in compilation: imported and rewritten once, lowered as often as the judge of the engine refuses a choice.
// Times and verdicts of candidates are kept in between.
class Compilation {
 public:
  // Imports and runs the passes. Locked: kRefused names what the lock contains and this version, machine or call lacks.
  static Result<std::unique_ptr<Compilation>> start(Options options);
  // The same for an imported model, types inferred; options.model is only its name.
  static Result<std::unique_ptr<Compilation>> start(Options options, Imported model);
  ~Compilation();
  // Chooses and emits. No choice is one of `refused`; locked: kRefused if it would have to be. `silent`: without
  // calling options.progress.
  Result<Compiled> lower(const lower::RefusedChoices& refused = {}, bool silent = false);
  const Options& options() const;
  const ir::Graph& imported() const;              // before any pass
  const std::vector<std::string>& notes() const;  // of the importer
  const ir::Graph& graph() const;                 // after the passes: what is lowered
  const DimBinding& tuned_for() const;
  const std::vector<DimBinding>& bounds() const;  // the smallest and largest sizes, if given

 private:
  Compilation();
  struct State;
  std::unique_ptr<State> state_;
};
// start() and lower() in one.
Result<Compiled> compile(Options options);

// A provider that has no kernel for the backend, or whose library is missing, would leave everything to the reference:
// kUsage, kRefused. "" is any.
Status check_provider(const std::string& provider, const lower::Backend& backend,
                      const std::optional<device::Target>& target);

// Values for all named dimensions of the graph's inputs: the given ones, else 1 for batches (what the model calls so,
// else the leading axes) and 128 for all others.
// Unknown names are an error that lists the known ones, two sizes for one dimension an error that names both. A size of
// kShapeEnds for INPUT.N says that the input has exactly N axes. An axis that follows from dimensions, as past + seq
// does, may be given at the size that it has then, or gives the one of them that is not given. `otherwise`: values of
// those not given. Sizes that are impossible for the model are an error too; sizes that are not given are those of
// inputs at hand, else those that its nodes require (fit_dims.hpp), else smaller ones where 128 is too large.
Result<DimBinding> possible_dims(const ir::Graph& graph, const std::map<std::string, int64_t>& given,
                                 const std::vector<InputShape>& at_hand = {});
// kUsage, naming sizes and node, where the graph's own shapes contradict each other at these sizes, with this remedy.
constexpr std::string_view kOtherSizes = "give sizes that it can have: --dims NAME=N";
Status check_possible(const ir::Graph& graph, const DimBinding& sizes);
// `sizes`, of which those whose names are not `fixed` are replaced by what the graph's nodes require (fit_dims.hpp)
// where they contradict each other, as a total does that is not the sum of the past and of what is new.
DimBinding fitted_dims(const ir::Graph& graph, const DimBinding& sizes, const std::set<std::string>& fixed);
constexpr int64_t kShapeEnds = -1;
// The given dimensions, by their own names.
Result<DimBinding> stated_dims(const ir::Graph& graph, const std::map<std::string, int64_t>& given);
Result<DimBinding> resolve_dims(const ir::Graph& graph, const std::map<std::string, int64_t>& given,
                                const DimBinding& otherwise = {});
// The same for the inputs of an engine: a size of 0 that it was not built for is refused with the words that build it.
Result<DimBinding> engine_dims(const ir::Graph& graph, const std::map<std::string, int64_t>& given,
                               const DimBinding& otherwise);
// The dimension that a user's name for a size means: its own, INPUT.AXIS, "batch", "sequence"; nullopt: none.
std::optional<std::string> dimension_of(const ir::Graph& graph, const std::string& key);
// Sizes of the graph's dimensions from inputs at hand.
DimBinding sizes_of(const ir::Graph& graph, const std::vector<InputShape>& at_hand);

}  // namespace peri::compile
