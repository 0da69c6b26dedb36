// The server's own log, a line for each event, and what of it is written: settings in Triton's words, which clients may
// ask for and change while the server runs.
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
  uint64_t verbose = 0;  // above 0: a line for each request, too
  bool iso8601 = false;  // time and level stand before each line
};

// All functions may be called from any thread.
class ServerLog {
 public:
  // `write` puts a line where it belongs.
  ServerLog(LogSettings settings, std::function<void(const std::string&)> write)
      : settings_(settings), verbose_(settings.verbose > 0), write_(std::move(write)) {}
  void say(const LogLine& line);
  // Whether a line of kVerbose would be written.
  bool verbose() const { return verbose_.load(std::memory_order_relaxed); }
  // {"log_file": "", "log_info": true, ...}
  std::string text() const;
  // Some of these members, with other values. Errors change nothing: kInvalid; kUnsupported for what is not set this
  // way.
  Status update(const Json& changes);

 private:
  mutable std::mutex mutex_;
  LogSettings settings_;
  std::atomic<bool> verbose_;
  const std::function<void(const std::string&)> write_;
};

}  // namespace peri::serve
