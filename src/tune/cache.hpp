// What was measured stays measured: verdicts and times of candidates by problem, candidate and machine, in SQLite, each
// row under a checksum. A cache that is absent, read-only, damaged, locked or another user's never fails a build: it
// only says why it gives nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/target.hpp"
#include "kernels/entry.hpp"
#include "tune/judge.hpp"

namespace peri::tune {

// What timings hold for: CPU, instruction sets, libraries, number of threads, and the very program that takes them
// (this one, or the worker named), so that a rebuilt kernel is timed anew.
std::string machine_key(const device::Target& target, const std::string& worker = "");

struct CacheRow {
  double median_ms = -1, max_error = -1;
  std::string rejected;  // why the candidate may not be used; empty: it may
  std::string compared_with;
};

class Cache {
 public:
  // `folder` is made if it is missing; the file is timings.sqlite in it. `machine` names what timings hold for.
  static std::unique_ptr<Cache> open(const std::string& folder, std::string machine);
  ~Cache();
  // "" if it reads and writes; else what is wrong, for the build's notes: a whole sentence.
  std::string trouble() const;
  // What store() was given for this machine, problem and candidate; a damaged row, or one that makes no sense, is none.
  std::optional<CacheRow> find(const std::string& problem, const std::string& candidate);
  void store(const std::string& problem, const std::string& candidate, const CacheRow& row);
  // Verdicts of tier 1 about a kernel by name, version and library.
  std::optional<SampleVerdict> find_samples(const std::string& kernel);
  void store_samples(const std::string& kernel, const SampleVerdict& verdict);

 private:
  Cache();
  struct State;
  std::unique_ptr<State> state_;
};

struct CacheFacts {
  std::string file;
  bool exists = false;
  int64_t bytes = 0, problems = 0, rows = 0;
  std::vector<std::pair<std::string, int64_t>> machines;  // and rows of each
};
// Errors: kIo if the file is there and cannot be read as a cache.
Result<CacheFacts> cache_facts(const std::string& folder);
// Deletes the cache's own files and nothing else; returns how many bytes went. An absent cache is no error.
Result<int64_t> clear_cache(const std::string& folder);

}  // namespace peri::tune
