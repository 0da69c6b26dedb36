// A log is rotated by renaming it and sending SIGHUP: later lines go to a new file of that name.
#include "cli/console/watching.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>

#include "base/wall_clock.hpp"

namespace peri::cli {

namespace {
const FileKind kAccessLog{"an access log of peri serve",
                          [](std::string_view head) { return head.starts_with("{\"time\":\""); }, true,
                          FileKind::Dash::kError};
}  // namespace

std::vector<Flag> watching_flags() {
  return {{"--access-log", "", "PATH",
           "append a line of JSON for each request (-: to standard error); SIGHUP reopens it", false, &kAccessLog},
          {"--otlp-endpoint", "", "URL", "send traces to this collector by OTLP in JSON, e.g. http://127.0.0.1:4318"},
          {"--trace-rate", "", "N", "trace one in N of the requests without a traceparent (default 1)"},
          {"--trace-count", "", "N", "stop after N traces (default -1: never)"},
          {"--log-verbose", "", "N", "above 0: also log a line for each request (default 0)"},
          {"--log-format", "", "default|ISO8601", "ISO8601: prefix log lines with time and level (default: default)"}};
}

Result<serve::LogSettings> log_settings(const Arguments& arguments) {
  serve::LogSettings out;
  out.info = !arguments.has("--quiet");
  PERI_ASSIGN(const int64_t verbose, arguments.number("--log-verbose", 0, UINT32_MAX, 0));
  out.verbose = static_cast<uint64_t>(verbose);
  const std::string format = arguments.get("--log-format", "default");
  if (format != "default" && format != "ISO8601")
    return usage("--log-format '%s'", format.c_str()).expecting("default or ISO8601");
  out.iso8601 = format == "ISO8601";
  return out;
}

Result<std::unique_ptr<serve::Observer>> open_observer(const Arguments& arguments, serve::ServerLog& log) {
  serve::ObserveOptions o;
  o.access_log = arguments.get("--access-log");
  if (o.access_log != "-") PERI_TRY(check_replaces(o.access_log, kAccessLog, arguments.has("--force")));
  o.otlp_endpoint = arguments.get("--otlp-endpoint");
  PERI_ASSIGN(o.trace_one_in, arguments.number("--trace-rate", 1, 1000000000, 1));
  PERI_ASSIGN(o.trace_count, arguments.number("--trace-count", -1, INT64_MAX, -1));
  for (const char* flag : {"--trace-rate", "--trace-count"})
    if (arguments.has(flag) && o.otlp_endpoint.empty()) return usage("%s needs --otlp-endpoint", flag);
  o.seed = static_cast<uint64_t>(wall_ns()) ^ static_cast<uint64_t>(getpid()) << 48;
  o.say = [&log](const serve::LogLine& line) { log.say(line); };
  o.server_log = &log;
  return serve::Observer::open(o);
}

bool hung_up() {
  static std::atomic<bool> flag{false};
  static const bool watching = [] {
    struct sigaction action = {};
    action.sa_handler = [](int) { flag = true; };
    action.sa_flags = SA_RESTART;
    sigaction(SIGHUP, &action, nullptr);
    return true;
  }();
  return watching && flag.exchange(false);
}

}  // namespace peri::cli
