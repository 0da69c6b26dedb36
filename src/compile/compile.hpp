// Compiles a model file or folder to a program with weights: importer, passes, backend. Reports what was done on the
// way.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lower/lower.hpp"
#include "passes/pipeline.hpp"
#include "plan/lock_file.hpp"

namespace peri::compile {

// The shape of an input that a run will have. A name that no input has: of the input in this place.
struct InputShape {
  std::string name;
  std::vector<int64_t> dims;
};

struct Options {
  std::string model;                     // ONNX file or Hugging Face folder
  std::string backend = "auto";          // a name of backends.hpp, or "auto"
  std::string device = {};               // "cuda:1": which one of several the backend builds for; "": the first
  bool strict_placement = false;         // a step that the host has to run beside the backend's device is refused
  std::map<std::string, int64_t> dims;   // --dims: dimension names, INPUT.AXIS, "batch", "sequence"
  std::vector<InputShape> at_hand = {};  // inputs of runs to come: sizes that nobody gives are theirs
  std::map<std::string, int64_t> min_dims,
      max_dims;  // the smallest and largest sizes, beyond which no run is taken: every choice must hold there too
  std::vector<std::string> disabled_passes;
  DType dtype = DType::kInvalid;     // --dtype: what weights are stored in, f32, f16 or bf16; kInvalid: the model's own
  DType io_dtype = DType::kInvalid;  // --io-dtype: of inputs and outputs, the same three; kInvalid: the model's own
  std::string dump_dir;              // graph after each pass, "" none
  // --fix: inputs that are constants, by name; the section kFixedSection of the program holds them.
  std::map<std::string, std::string> fixed;
  tune::Options tune;
  std::optional<plan::Lock> lock;  // take its choices, dims, passes and provider; measure nothing
  std::string builder;             // version text for the engine
  std::function<void(size_t done, size_t total, const std::string& what)> progress;
  std::function<void(const std::string& line)> log = {};  // what is for a log alone
  // Asked of the model as it was read, its inputs of the types that a run will take, before any work on it; null: all
  // are built.
  std::function<Status(const ir::Graph& imported)> admits = {};
};

// The graph as imported, before any pass, with what travels along.
struct Imported {
  ir::Graph graph;
  std::vector<plan::Section> sections;  // tokenizer and pipeline of a text model
  std::vector<std::string> notes;       // what a user should know
  std::function<Status()> check_files;  // kIo if a file was cut since it was mapped; empty: no files
};
// Sizes for the dimensions on which the model's form hangs, where it does (pinned.hpp): by any name, else those of
// inputs.
struct ImportSizes {
  std::map<std::string, int64_t> dims = {};
  std::vector<InputShape> at_hand = {};
};
Result<Imported> import_any(const std::string& model, const std::map<std::string, std::string>& fixed = {},
                            const ImportSizes& sizes = {});

// A line NAME=VALUE for each input that was fixed.
constexpr std::string_view kFixedSection = "fixed";

struct Compiled {
  plan::Program program;  // with the section "source": IR text after the passes
  std::vector<Tensor> weights;
  std::vector<std::string> notes;  // of the importer
  std::vector<passes::PassReport> passes;
  std::vector<lower::StepReport> steps;
  std::vector<lower::HostRegion> on_host;  // beside the backend's device
  double predicted_ms = 0, conversion_ms = 0, import_seconds = 0, passes_seconds = 0;
  double tune_seconds = 0;  // of all that this compilation lowered
  tune::Tuner::Stats tuned;
  std::vector<DimBinding> bounds;  // the smallest and largest sizes it was checked for, those that were given
  plan::Lock lock;                 // every choice that was made
};
// A model on its way: imported and rewritten once, lowered as often as the judge of the engine refuses a choice. Times
// and verdicts of candidates are kept between.
class Compilation {
 public:
  // Imports and runs the passes. Locked: kRefused names what the lock has and this version, machine or call has not.
  static Result<std::unique_ptr<Compilation>> start(Options options);
  // The same of a model at hand, types inferred; options.model is only its name.
  static Result<std::unique_ptr<Compilation>> start(Options options, Imported model);
  ~Compilation();
  // Chooses and emits. No choice is one of `refused`; locked: kRefused if it would have to be.
  // `silent` tells options.progress nothing of it.
  Result<Compiled> lower(const lower::RefusedChoices& refused = {}, bool silent = false);
  const Options& options() const;
  const ir::Graph& imported() const;  // before any pass
  const ir::Graph& graph() const;     // after the passes: what is lowered
  const DimBinding& tuned_for() const;
  const std::vector<DimBinding>& bounds() const;  // the smallest and largest sizes, where they were given

 private:
  Compilation();
  struct State;
  std::unique_ptr<State> state_;
};
// start() and lower() in one.
Result<Compiled> compile(Options options);

// A provider that has no kernel for the backend, or whose library is not there, would leave all to the reference:
// kUsage, kRefused. "" is any.
Status check_provider(const std::string& provider, const lower::Backend& backend,
                      const std::optional<device::Target>& target);

// Values for all named dimensions of the graph's inputs: the given ones, else batch-like axis 0 = 1 and all others 128.
// Unknown names are an error that lists the known ones, two sizes for one dimension one that names both. A size of
// kShapeEnds for INPUT.N says that the input has N axes and no more. `otherwise`: values of those not given.
// Sizes that the model cannot have are an error too; what nobody gave is what inputs at hand have, else what its nodes
// ask for (fit_dims.hpp), else less where 128 is too much for it.
Result<DimBinding> possible_dims(const ir::Graph& graph, const std::map<std::string, int64_t>& given,
                                 const std::vector<InputShape>& at_hand = {});
// kUsage, naming sizes and node, where the graph's own shapes contradict each other at these sizes.
Status check_possible(const ir::Graph& graph, const DimBinding& sizes);
constexpr int64_t kShapeEnds = -1;
// The dimensions that are given, by their own names.
Result<DimBinding> stated_dims(const ir::Graph& graph, const std::map<std::string, int64_t>& given);
Result<DimBinding> resolve_dims(const ir::Graph& graph, const std::map<std::string, int64_t>& given,
                                const DimBinding& otherwise = {});
// Sizes that inputs at hand give the graph's dimensions.
DimBinding sizes_of(const ir::Graph& graph, const std::vector<InputShape>& at_hand);

}  // namespace peri::compile
