// The pipeline: every pass in order, each wrapped once for disabling, timing, inference, verification and dumping.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "passes/entry.hpp"

namespace peri::passes {

// The order, as listed in pipeline.cpp. A pass may occur more than once.
std::span<const std::string_view> order();

struct PipelineOptions {
  std::vector<std::string> disabled;  // names; an unknown one is an error that lists the known ones
  std::string dump_dir;               // "NN_name.before.ir" and "NN_name.after.ir" for passes that changed something
  std::function<bool()> stop = {};    // once it returns true no further pass runs: an error of kind kCancelled
  Precision precision = {};
};

// kUsage, with the known names, for a name that no pass has.
Status check_names(const std::vector<std::string>& names);

struct PassReport {
  std::string name;
  int64_t rewrites = 0;
  double ms = 0;
  size_t nodes_before = 0, nodes_after = 0;
  bool disabled = false;
};

// Runs the pipeline on `graph` in place. Types are inferred first and after every pass that changed something;
// structure is verified; an error names the pass.
Result<std::vector<PassReport>> run_pipeline(ir::Graph& graph, const PipelineOptions& options);

// One pass with its wrapper, for tests.
Result<PassReport> run_pass(const Pass& pass, ir::Graph& graph, const Precision& precision = {});

}  // namespace peri::passes
