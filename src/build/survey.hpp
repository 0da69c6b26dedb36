// What a model needs and whether it runs here, before anything is tuned: its inputs and operators, all unsupported ones
// at once, and for a model that runs, its memory and the least time to build it.
#pragma once

#include "build/build_memory.hpp"
#include "build/request.hpp"
#include "onnx/import.hpp"

namespace peri::build {

struct Survey {
  std::string path, kind;
  uint64_t file_bytes = 0;
  std::vector<onnx::PortInfo> inputs, outputs;
  std::map<std::string, std::vector<std::string>> symbols;  // name -> "input.axis"
  std::vector<onnx::OpUse> ops;
  int64_t nodes = 0, weights = 0, parameters = 0;
  std::string origin;  // producer, opsets, architecture
  std::vector<std::string> notes;
  // Results of a trial lowering without measurement, if every operator is supported.
  bool lowered = false;
  DimBinding dims;
  std::vector<std::string> device_memory;  // a line for each device except the host
  int64_t weight_bytes = 0, arena_bytes = 0, problems = 0, candidates = 0;
  std::string lacks;  // what a run at these sizes needs and this machine does not have now; empty: nothing
  int64_t steps = 0, body_steps = 0;            // of a run; in bodies of loops and branches
  std::string slow_text;                        // names the slow ones of these: see slow_steps_text()
  int64_t reference_steps = 0, slow_steps = 0;  // of both: on the reference; those of more than a few elements
  double prepare_seconds = 0, build_seconds = 0;
  BuildMemory build_memory;  // 0: not known, of a build for a device

  int64_t unsupported_kinds() const;  // operators
  int64_t unsupported_nodes() const;
};

// For request.model: reads it and, unless it is too large, lowers it with first offers. Errors: those of the importer
// and of lowering; an unsupported operator is not an error.
Result<Survey> survey(const Request& request);
std::string survey_json(const Survey& survey);

}  // namespace peri::build
