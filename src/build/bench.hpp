// Measures an engine for a caller: in this process, or in fresh ones.
#pragma once

#include <array>

#include "bench/session.hpp"
#include "build/open.hpp"

namespace peri::build {

// Which file a path names, and when it was last written; of none: zeros.
using FileState = std::array<int64_t, 5>;
FileState file_state(const std::string& path);

struct BenchSubject {
  std::shared_ptr<const runtime::Engine> engine;
  std::string path = {};                     // its file; "": built in memory
  FileState loaded = {};                     // its state before it was loaded: where it is another now, a copy counts
  double load_ms = 0;                        // time to open it
  std::function<Status()> check_files = {};  // kIo if a file was truncated since it was mapped; empty: no files
};

struct BenchTerms {
  int threads = 1;
  double seconds = 3;            // to sample for, in each process
  double warm_up_seconds = 0.3;  // before that
  int64_t max_samples = 100000;
  double tolerance = 0.25;  // see bench::why_unstable()
  bool layers = false;
  DimBinding dims = {};  // of the runs
  std::vector<Tensor> inputs = {};
  // Flags of `peri bench` that give another process the same inputs: "--input", "NAME=FILE", "--cast".
  std::vector<std::string> input_words = {};
  int64_t processes = 0;     // fresh ones, one after another; 0: this one
  std::string program = {};  // the program to start for them: `peri`
  std::function<void(const std::string& what)> progress = {};
  std::function<bool()> stop = {};
};

// Errors: those of a run; kUsage where fresh processes are requested without a program to start.
Result<bench::Record> bench_engine(const BenchSubject& subject, const BenchTerms& terms);

}  // namespace peri::build
