// The worker is this program again, under another name of a command.
#include "cli/console/serving.hpp"

#include <algorithm>
#include <filesystem>

#include "cli/console/model.hpp"

namespace peri::cli {

constexpr std::string_view kBatchCheck = "--batch-check-secs";

std::vector<Flag> worker_flags() {
  return {
      {"--in-process", "", "", "run models in the server's own process: what ends one of them ends the server"},
      {"--worker-memory-mib", "", "N", "most memory for tensors on their way to and from the worker (default 2048)"},
      {"--stuck-secs", "", "S", "not ready where a model works and gets nothing done for so long (default 0.8)"},
      {"--stuck-kill-secs", "", "S", "a worker that gets nothing done for so long is ended (default 60; 0: never)"},
      {"--canary-secs", "", "S", "ask each model its known question so often (default 10; 0: never)"},
      {kBatchCheck, "", "S", "most seconds to hold a model's batches against single answers (default 10)"},
  };
}

Result<serve::WorkerOptions> worker_options(const Arguments& arguments) {
  serve::WorkerOptions out;
  std::error_code failed;
  out.program = std::filesystem::read_symlink("/proc/self/exe", failed).string();
  if (failed) return io_error("cannot find the running program to start its worker: %s", failed.message().c_str());
  out.arguments = {"serve-worker"};
  for (const Flag& f : build_flags({{kBatchCheck, "", "S", ""}})) {
    const auto given = arguments.values.find(f.name);
    if (given == arguments.values.end()) continue;
    for (const std::string& v : given->second)
      out.arguments.push_back(f.value.empty() ? std::string(f.name) : std::string(f.name) + "=" + v);
  }
  out.name = "worker";
  PERI_ASSIGN(const int64_t mib, arguments.number("--worker-memory-mib", 16, int64_t{1} << 24, 2048));
  out.memory_bytes = static_cast<uint64_t>(mib) << 20;
  PERI_ASSIGN(const double stuck, arguments.real("--stuck-secs", 0.1, 86400, 0.8));
  PERI_ASSIGN(const double kill, arguments.real("--stuck-kill-secs", 0, 86400, 60));
  out.stuck_after_ns = static_cast<int64_t>(stuck * 1e9);
  out.kill_after_ns = static_cast<int64_t>(kill * 1e9);
  return out;
}

Result<serve::HealthOptions> health_options(const Arguments& arguments) {
  serve::HealthOptions out;
  PERI_ASSIGN(const double stuck, arguments.real("--stuck-secs", 0.1, 86400, 0.8));
  PERI_ASSIGN(const double canary, arguments.real("--canary-secs", 0, 86400, 10));
  out.stuck_after_ns = static_cast<int64_t>(stuck * 1e9);
  out.canary_every_ns = static_cast<int64_t>(canary * 1e9);
  return out;
}

void add_worker_metrics(const serve::WorkerCounts& c, std::string* out) {
  const auto row = [&](const char* name, const char* kind, const char* what, uint64_t value) {
    const bool counter = std::string_view(kind) == "counter";
    *out += format("# TYPE %s %s\n# HELP %s %s\n%s%s %llu\n", name, kind, name, what, name, counter ? "_total" : "",
                   static_cast<unsigned long long>(value));
  };
  row("peri_worker_up", "gauge", "1 while the worker process runs", c.up ? 1 : 0);
  row("peri_worker_starts", "counter", "Worker processes started", c.starts);
  row("peri_worker_deaths", "counter", "Worker processes that ended", c.deaths);
  row("peri_worker_lost_requests", "counter", "Requests that were under way in a worker when it ended",
      c.lost_requests);
  row("peri_worker_memory_bytes", "gauge", "Tensors on their way to and from the worker", c.memory_used);
}

}  // namespace peri::cli
