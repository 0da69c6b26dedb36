// Lowering: converts a graph with inferred types to a program and its weights.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lower/cover.hpp"
#include "plan/program.hpp"
#include "tune/work.hpp"

namespace peri::lower {

// A step in one run of the whole engine on made-up inputs.
struct InRun {
  int64_t runs = 0;  // of the step: as often as the bodies around it ran
  double ms = 0;     // of all of them, without the steps of its own bodies
};

// The result for one region, for reports and the proof.
struct StepReport {
  std::string name;                            // anchor
  std::vector<std::string> origins;            // nodes of the model
  std::vector<std::string> touched_by;         // passes
  std::string problem;                         // its text at the tuned dims
  std::string key;                             // region_key, or the hash of a conversion's graph
  std::string device;                          // the device of the step; "": the host
  bool conversion = false;                     // a change of layout or device, not a region; a copy has no key
  std::string chosen;                          // candidate id, or "reference"
  std::string layouts, requires_isa, library;  // of the chosen one
  std::string fallback,
      fallback_isa;         // the candidate for other dims, where the chosen one is valid at the tuned ones only
  tune::Evidence evidence;  // of the chosen one
  std::optional<kernels::Needs> needs;  // at the tuned dims; none: only a library knows, or nothing was chosen
  std::vector<std::pair<std::string, tune::Evidence>> others;  // id, and the evidence about it
  // Of each of these, and of the chosen one, what tells it from another of its id: see layouts_among().
  std::vector<std::string> other_layouts = {};
  std::string own_layouts = {};
  std::vector<std::pair<std::string, std::string>> refusals;  // kernel, reason
  tune::RegionWork work;                                      // at the tuned dims, by the chosen candidate's algorithm
  DimBinding assumed_sizes = {};                     // that the tuner took for the dimensions that the data decide
  std::optional<InRun> in_run = {};                  // none: the engine was not run for it
  std::vector<std::vector<StepReport>> bodies = {};  // of an if or a loop, which are lowered as graphs of their own
};
// All reports, each before those of its bodies.
std::vector<const StepReport*> all_reports(const std::vector<StepReport>& steps);

struct Options {
  DimBinding tuned_for;              // the sizes of all named dimensions of the inputs
  std::vector<DimBinding> also;      // other dims at which every choice must be valid
  const plan::Lock* lock = nullptr;  // the choices to use; null: choose
  RefusedChoices refused = {};       // used by no region
  std::function<void(size_t done, size_t total, const std::string& what)> progress;
  // Called before anything is tried, for the host alone: the memory that every run at these sizes takes at least
  // (least_bytes.hpp). Its error ends the lowering.
  std::function<Status(const DimBinding& sizes, double bytes)> affords = {};
};

struct Lowered {
  plan::Program program;
  std::vector<Tensor> weights;
  std::vector<StepReport> steps;
  double predicted_ms = 0, conversion_ms = 0;
  std::vector<HostRegion> on_host;  // in addition to the backend's device
};

// REQUIRES: types inferred, dead code removed; the tuner offers kernels of the backend's executors only. Nodes that no
// kernel supports run on the reference executor and are reported.
Result<Lowered> lower_graph(const ir::Graph& graph, const Backend& backend, tune::Tuner& tuner, const Options& options);

}  // namespace peri::lower
