// The objective of `peri serve --tune`, and the result for a version of a model, stored in a file in its folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_uses.hpp"
#include "base/result.hpp"

namespace peri::serve {

// "p99=20ms": this quantile of all requests is below this time.
struct Objective {
  double quantile = 0.99;
  int64_t ns = 0;
  std::string text() const;
};
Result<Objective> parse_objective(std::string_view text);

struct BatchSettings {
  int64_t most_rows = 1;
  int64_t delay_ns = 0;
  bool operator==(const BatchSettings&) const = default;
};

// A setting with the largest rate of single rows at which it meets the objective.
struct TunedPoint {
  BatchSettings settings;
  double per_second = 0;
  int64_t quantile_ns = 0;  // latency at that rate
};

// What config.pbtxt says of batches, from which a search begins.
struct StatedBatching {
  int64_t most_rows = 0, delay_us = 0;
  std::vector<int64_t> preferred;
  bool operator==(const StatedBatching&) const = default;
};

struct KeptTuning {
  std::string objective;
  StatedBatching stated;
  uint64_t files = 0;  // a hash of the version's files, by their content
  int64_t slots = 1;
  std::string machine;  // its processors
  TunedPoint best;
  std::vector<TunedPoint> tried;
};
extern const FileKind kTuningFile;
std::string kept_tuning_json(const KeptTuning& tuning);
Result<KeptTuning> read_kept_tuning(const std::string& path);
// "batches of up to 16 rows, a delay of 1.5 ms: 1200 rows a second for p99=20ms, at 18.2 ms"
std::string tuning_text(const KeptTuning& tuning);

}  // namespace peri::serve
