// The result of measuring runs, as `peri bench --json` writes it and `peri compare` reads it: what was run, the samples
// of each process, and other load on the machine. docs/json.md lists the members.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dim.hpp"
#include "base/json.hpp"
#include "base/tensor.hpp"
#include "bench/conditions.hpp"
#include "bench/device_runs.hpp"
#include "bench/measure.hpp"

namespace peri::bench {

// Samples of one process.
struct ProcessRecord {
  std::vector<double> samples_ms;  // in temporal order
  double wall_s = 0;               // from the begin of the first sample to the end of the last one
  double load_ms = 0, first_run_ms = 0;
  Conditions conditions;
};

// The time of a single step of the engine.
struct LayerTime {
  std::string step, executor, kernel;  // kernel: as proofs name it
  double ms = 0;                       // in a run, the median of layer_runs
};

struct Record {
  std::string model;  // its name, for reports
  std::string
      identity;  // of the model: a hash of its graph and weights as imported, the same for all engines made from it
  int threads = 1;
  DimBinding dims;
  bool tuned = true;          // for these dims
  int64_t items_per_run = 1;  // the batch: see items_of()
  int64_t arena_bytes = 0;
  bool interrupted = false;
  std::string unstable;                // why_unstable(), by the requested tolerance
  std::vector<std::string> disturbed;  // disturbances() of any process
  std::vector<ProcessRecord> processes;
  std::vector<LayerTime> layers;  // in order of the program; empty: not requested
  int64_t layer_runs = 0;
  DeviceReport on_device = {};  // merged over the processes
  std::string file = {};        // the file it was read from, for errors; not written

  size_t samples() const;
  std::vector<double> all_samples() const;               // process after process
  std::vector<std::vector<double>> per_process() const;  // of samples
  double runs_per_s() const;                             // completed runs per second of wall clock
  double items_per_s() const;
  double median_ms() const;  // mean of the processes' medians: stats::block_center()
};

// Items per run: the size of axis 0 that all its inputs and outputs share (except scalars), which is the batch; 1 where
// there is none.
int64_t items_of(std::span<const Tensor> inputs, std::span<const Tensor> outputs);

std::string record_json(const Record& record);
// Errors: kInvalid for a malformed record, kUnsupported for another form.
Result<Record> read_record(std::string_view text);

// Merges records of the same work: all their processes, and the first disturbance of each kind. REQUIRES one or more.
Record merged(std::vector<Record> parts);

}  // namespace peri::bench
