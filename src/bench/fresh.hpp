// A measurement in fresh processes, one after another: how processes differ (memory placement, other load, clock) is
// part of the measurement.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/record.hpp"

namespace peri::bench {

// A command's standard output and exit status.
struct Answer {
  std::string output;
  int code = 0;  // exit code; 128 + N for signal N
};
// Runs `words[0]` with the others as its arguments; its standard error is discarded. Ctrl-C in a terminal does not
// reach it: once `stop` returns true it is sent SIGTERM, once. Errors: kIo where it cannot be started.
Result<Answer> run_fresh(const std::vector<std::string>& words, const std::function<bool()>& stop);

// The merged record of `processes` runs of a command that writes the record of one, such as `peri bench --json -`.
// Returns the processes so far when `stop` returns true. An error of a command is returned.
Result<Record> time_fresh(const std::vector<std::string>& words, int64_t processes,
                          const std::function<void(const std::string& what)>& progress,
                          const std::function<bool()>& stop);

}  // namespace peri::bench
