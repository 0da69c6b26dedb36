// The server's own log, one line per event, and its settings, named as in Triton, which clients may read and change at
// run time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "base/json.hpp"

namespace peri::serve {

enum class LogLevel : uint8_t { kVerbose, kInfo, kWarning, kError };

struct LogLine {
  LogLine(std::string t) : text(std::move(t)) {}
  LogLine(const char* t) : text(t) {}
  LogLine(LogLevel l, std::string t) : level(l), text(std::move(t)) {}
  operator const std::string&() const { return text; }
  LogLevel level = LogLevel::kInfo;
  std::string text;
};
using Log = std::function<void(const LogLine&)>;

struct LogSettings {
  bool info = true, warning = true, error = true;
  uint64_t verbose = 0;  // above 0: also a line per request
  bool iso8601 = false;  // format of the time at the beginning of a line
};

// Thread-safe.
class ServerLog {
 public:
  // `write` outputs one line.
  ServerLog(LogSettings settings, std::function<void(const std::string&)> write)
      : settings_(settings), verbose_(settings.verbose > 0), write_(std::move(write)) {}
  void say(const LogLine& line);
  // Whether a line of kVerbose would be written.
  bool verbose() const { return verbose_.load(std::memory_order_relaxed); }
  // {"log_file": "", "log_info": true, ...}
  std::string text() const;
  // Changes the given members. Errors leave all unchanged: kInvalid; kUnsupported: cannot be changed at run time.
  Status update(const Json& changes);

 private:
  mutable std::mutex mutex_;
  LogSettings settings_;
  std::atomic<bool> verbose_;
  const std::function<void(const std::string&)> write_;
};

}  // namespace peri::serve
