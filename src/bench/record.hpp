// The result of measuring runs, as `peri bench --json` writes it and `peri compare` reads it: what was run, the samples
// of each process, and other load on the machine. docs/measuring.md lists the members.
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
  std::vector<double> samples_ms;  // in order of time
  double wall_s = 0;               // from the first sample's begin to the last one's end
  double load_ms = 0, first_run_ms = 0;
  Conditions conditions;
};

// A step of the engine, by itself.
struct LayerTime {
  std::string step, executor, kernel;  // kernel: the first line of its payload
  double ms = 0;                       // in a run, the median of layer_runs
};

struct Record {
  std::string model;     // its name, for people
  std::string identity;  // of the model: a hash of its graph and weights as imported, whatever engine was made of it
  int threads = 1;
  DimBinding dims;
  bool tuned = true;          // for these dims
  int64_t items_per_run = 1;  // the batch: see items_of()
  int64_t arena_bytes = 0;
  bool interrupted = false;
  std::string unstable;                // why_unstable(), by the tolerance that was asked for
  std::vector<std::string> disturbed;  // disturbances() of any process
  std::vector<ProcessRecord> processes;
  std::vector<LayerTime> layers;  // in order of the program; empty: not asked for
  int64_t layer_runs = 0;
  DeviceReport on_device = {};  // of all processes together
  std::string file = {};        // that it was read from, for errors; not written

  size_t samples() const;
  std::vector<double> all_samples() const;               // process after process
  std::vector<std::vector<double>> per_process() const;  // of samples
  double runs_per_s() const;                             // runs done per second of wall clock
  double items_per_s() const;
  double median_ms() const;  // mean of the processes' medians: stats::block_center()
};

// Items of a run: the size of axis 0 that all its inputs and outputs have in common (scalars apart), which is the
// batch; 1 where they have none in common.
int64_t items_of(std::span<const Tensor> inputs, std::span<const Tensor> outputs);

std::string record_json(const Record& record);
// Errors: kInvalid for what is no record of this form, kUnsupported for another form.
Result<Record> read_record(std::string_view text);

// One record of several of the same work: all their processes, and of each kind of disturbance the first. REQUIRES one
// or more.
Record merged(std::vector<Record> parts);

}  // namespace peri::bench
