// Compile: a model file or folder becomes a program with weights: importer, passes, backend. And what happened on the
// way.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/lower.hpp"
#include "passes/core/pipeline.hpp"
#include "plan/lock_file.hpp"

namespace peri::compile {

struct Options {
  std::string model;                    // ONNX file or Hugging Face folder
  std::string backend = "auto";         // "auto", "cpu"
  std::map<std::string, int64_t> dims;  // --dims: dimension names, INPUT.AXIS, "batch", "sequence"
  std::map<std::string, int64_t> min_dims,
      max_dims;  // the smallest and largest sizes: every choice must hold there too
  std::vector<std::string> disabled_passes;
  std::string dump_dir;  // graph after each pass, "" none
  tune::Options tune;
  std::optional<plan::Lock> lock;  // take its choices, dims, passes and provider; measure nothing
  std::string builder;             // version text for the engine
  std::function<void(size_t done, size_t total, const std::string& what)> progress;
};

// The graph as imported, before any pass, with what travels along.
struct Imported {
  ir::Graph graph;
  std::vector<plan::Section> sections;  // tokenizer and pipeline of a text model
  std::vector<std::string> notes;       // what a user should know
  std::function<Status()> check_files;  // kIo if a file was cut since it was mapped; never empty
};
Result<Imported> import_any(const std::string& model);

struct Compiled {
  plan::Program program;  // with the section "source": IR text after the passes
  std::vector<Tensor> weights;
  std::vector<std::string> notes;  // of the importer
  std::vector<passes::PassReport> passes;
  std::vector<backends::cpu::StepReport> steps;
  double predicted_ms = 0, conversion_ms = 0, import_seconds = 0, passes_seconds = 0, tune_seconds = 0;
  tune::Tuner::Stats tuned;
  std::vector<DimBinding> bounds;  // the smallest and largest sizes it was checked for, those that were given
  plan::Lock lock;                 // every choice that was made
};
// Locked: kRefused names what the lock has and this version, machine, model or call has not.
Result<Compiled> compile(Options options);

// Values for all named dimensions of the graph's inputs: the given ones, else batch-like axis 0 = 1 and all others 128.
// Unknown names are an error that lists the known ones. `otherwise`: values of those not given.
Result<DimBinding> resolve_dims(const ir::Graph& graph, const std::map<std::string, int64_t>& given,
                                const DimBinding& otherwise = {});

}  // namespace peri::compile
