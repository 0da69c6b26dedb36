// The timing cache: verdicts and times of candidates by problem, candidate and machine, in SQLite, each row with a
// checksum. A cache that is absent, read-only, damaged, locked or another user's never fails a build: it only reports
// why it has no data; a damaged file is moved aside and a new one begun. What is stored outlives a deletion of the file
// meanwhile.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/peaks.hpp"
#include "device/target.hpp"
#include "kernels/entry.hpp"
#include "problem/problem.hpp"
#include "tune/crossing.hpp"
#include "tune/judge.hpp"

namespace peri::tune {

// What timings depend on besides problem and candidate: CPU, instruction sets, libraries and number of threads. The
// kernels' sources are part of a candidate's name (tuner.cpp).
std::string machine_key(const device::Target& target);

class Cache {
 public:
  // `folder` is created if it is missing; the file is timings.sqlite in it. `machine` is the key of the rows. `renew`:
  // for candidates, samples and choices of libraries only rows stored by this object are found, so that everything is
  // tried and queried again and its rows replaced.
  static std::unique_ptr<Cache> open(const std::string& folder, std::string machine, bool renew = false);
  ~Cache();
  // "" if it reads and writes and always did; else the fault, for the build's notes: a whole sentence.
  std::string trouble() const;
  // What was stored for this machine, problem and candidate; a damaged or implausible row is ignored.
  std::optional<Evidence> find(const std::string& problem, const std::string& candidate);
  void store(const std::string& problem, const std::string& candidate, const Evidence& evidence);
  // Verdicts of tier 1 about a kernel by name, version and library.
  std::optional<SampleVerdict> find_samples(const std::string& kernel);
  void store_samples(const std::string& kernel, const SampleVerdict& verdict);
  // What a library chose for a candidate on a problem.
  std::optional<Resolved> find_resolved(const std::string& problem, const std::string& candidate);
  void store_resolved(const std::string& problem, const std::string& candidate, const Resolved& resolved);
  // What it takes to reach a device of a kind.
  std::optional<Crossing> find_crossing(std::string_view device);
  void store_crossing(std::string_view device, const Crossing& crossing);
  // The findings about the whole graph of a program, identified by all its choices: JSON in the caller's form.
  std::optional<std::string> find_whole(const std::string& program);
  void store_whole(const std::string& program, const std::string& text);
  // A verdict about an engine, identified by everything that it depends on: JSON in the judge's form.
  std::optional<std::string> find_verdict(const std::string& engine);
  void store_verdict(const std::string& engine, const std::string& text);
  // The text of a problem by its hash: for one without a one-line form.
  std::optional<std::string> find_problem(const std::string& hash);
  void store_problem(const ir::Graph& region, const std::vector<bool>& weights);
  // The peaks of this machine, measured by this program since the machine was started (see peaks_hold_for()).
  std::optional<bench::Peaks> find_peaks(const std::string& holds_for);
  void store_peaks(const std::string& holds_for, const bench::Peaks& peaks);

 private:
  Cache();
  struct State;
  std::unique_ptr<State> state_;
};

// The program's version and the start of the machine: what peaks depend on besides machine_key().
std::string peaks_hold_for();
// Measuring peaks takes 0.1 to 0.3 s on two cores: a build that tuned for less than this skips it.
// Rests on: benchmarks/results/2026-11-22_constants.md.
constexpr double kPeaksAfterSeconds = 3;
// Sustained peaks of `threads` threads of this machine: those in the cache of `folder` ("" none); else, after a build
// that tuned for long enough, measured now and stored. None: not worth a short build's time.
std::optional<bench::Peaks> machine_peaks(const std::string& folder, int threads, double tuned_seconds);

struct CacheFacts {
  std::string file;
  bool exists = false;
  int64_t bytes = 0, problems = 0, rows = 0;
  std::vector<std::pair<std::string, int64_t>> machines;  // and rows of each
};
// Errors: kIo if the file exists and cannot be read as a cache.
Result<CacheFacts> cache_facts(const std::string& folder);
// Deletes the cache's own files and nothing else; returns the number of bytes deleted. An absent cache is no error.
Result<int64_t> clear_cache(const std::string& folder);

}  // namespace peri::tune
