// A log is rotated by renaming it and sending SIGHUP: from then on lines go to a new file of its name.
#include "cli/console/watching.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>

#include "base/wall_clock.hpp"

namespace peri::cli {

namespace {
const FileKind kAccessLog{"an access log of peri serve",
                          [](std::string_view head) { return head.starts_with("{\"time\":\""); }, true, true};
}  // namespace

std::vector<Flag> watching_flags() {
  return {{"--access-log", "", "PATH",
           "append a line of JSON for each request (-: to standard error); SIGHUP reopens it", false, &kAccessLog},
          {"--otlp-endpoint", "", "URL", "send traces there by OTLP in JSON, e.g. http://127.0.0.1:4318"},
          {"--trace-rate", "", "N", "trace one in N requests whose caller says nothing of traces (default 1)"}};
}

Result<std::unique_ptr<serve::Observer>> open_observer(const Arguments& arguments,
                                                       std::function<void(const std::string&)> say) {
  serve::ObserveOptions o;
  o.access_log = arguments.get("--access-log");
  if (o.access_log != "-") PERI_TRY(check_replaces(o.access_log, kAccessLog, arguments.has("--force")));
  o.otlp_endpoint = arguments.get("--otlp-endpoint");
  PERI_ASSIGN(o.trace_one_in, arguments.number("--trace-rate", 1, 1000000000, 1));
  if (arguments.has("--trace-rate") && o.otlp_endpoint.empty()) return usage("--trace-rate needs --otlp-endpoint");
  if (o.access_log.empty() && o.otlp_endpoint.empty()) return std::unique_ptr<serve::Observer>();
  o.seed = static_cast<uint64_t>(wall_ns()) ^ static_cast<uint64_t>(getpid()) << 48;
  o.say = std::move(say);
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
