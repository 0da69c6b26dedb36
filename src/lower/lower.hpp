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

// What became of one region, for reports and the proof.
struct StepReport {
  std::string name;                            // anchor
  std::vector<std::string> origins;            // nodes of the model
  std::vector<std::string> touched_by;         // passes
  std::string problem;                         // its text at the tuned dims
  std::string key;                             // region_key, or the hash of a conversion's graph
  std::string device;                          // whose step it is; "": the host's
  bool conversion = false;                     // a change of layout or device, not a region; a copy has no key
  std::string chosen;                          // candidate id, or "reference"
  std::string layouts, requires_isa, library;  // of the chosen one
  std::string fallback, fallback_isa;  // the one for other dims, where the chosen one holds at the tuned ones only
  tune::Evidence evidence;             // of the chosen one
  std::vector<std::pair<std::string, tune::Evidence>> others;  // id, what is known of it
  std::vector<std::pair<std::string, std::string>> refusals;   // kernel, reason
  tune::RegionWork work;                                       // at the tuned dims, by the chosen candidate's algorithm
  std::vector<std::vector<StepReport>> bodies = {};            // of an if or a loop, which are chosen as themselves
};
// All of them, each before those of its bodies.
std::vector<const StepReport*> all_reports(const std::vector<StepReport>& steps);

struct Options {
  DimBinding tuned_for;              // every named dimension of the inputs
  std::vector<DimBinding> also;      // other dims at which every choice must hold
  const plan::Lock* lock = nullptr;  // whose choices are taken; null: choose
  RefusedChoices refused = {};       // taken by no region
  std::function<void(size_t done, size_t total, const std::string& what)> progress;
};

struct Lowered {
  plan::Program program;
  std::vector<Tensor> weights;
  std::vector<StepReport> steps;
  double predicted_ms = 0, conversion_ms = 0;
  std::vector<HostRegion> on_host;  // beside the device that the backend runs on
};

// REQUIRES: types inferred, dead code gone; the tuner offers kernels of the backend's executors only. Nodes that no
// kernel takes run on the reference executor and are reported so.
Result<Lowered> lower_graph(const ir::Graph& graph, const Backend& backend, tune::Tuner& tuner, const Options& options);

}  // namespace peri::lower
