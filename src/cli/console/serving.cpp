// The worker is this program, started with a hidden command.
#include "cli/console/serving.hpp"

#include <algorithm>
#include <charconv>

#include "base/this_program.hpp"
#include "cli/console/model.hpp"
#include "compile/backends.hpp"
#include "device/lost.hpp"
#include "device/open.hpp"
#include "serve/observe/process.hpp"

namespace peri::cli {

constexpr size_t kMaxWorkers = 64;
constexpr std::string_view kBatchCheck = "--batch-check-secs";

std::vector<Flag> worker_flags() {
  return {
      {"--in-process", "", "", "run models in the server's process: a crash of one ends the server"},
      {"--worker-devices", "", "A,B,...",
       "start a worker process for each of these devices and load every model in each, e.g. cuda:0,cuda:1 or cpu,cpu"},
      {"--runs-at-once", "", "N",
       "with more concurrent runs than this, models take turns by time used (default: number of CPUs, for each "
       "worker)"},
      {"--rate-limit-resource", "", "NAME:COUNT",
       "units on each device of a resource named by a rate_limiter (default: the most that one model asks for)", true},
      {"--worker-memory-mib", "", "N", "memory for tensors in transit to and from the worker (default 2048)"},
      {"--stuck-secs", "", "S",
       "report not ready if a model has work and makes no progress for this long (default 0.8)"},
      {"--stuck-kill-secs", "", "S",
       "kill and replace a worker that makes no progress for this long (default 60; 0: never)"},
      {"--canary-secs", "", "S", "interval of each model's canary request (default 10; 0: never)"},
      {"--cache-mib", "", "N", "memory for the response_cache of all models (default 64; 0: none)"},
      {"--api-keys", "", "FILE", "require a key from this file, except for liveness and the page of the dashboard"},
      {"--tls-certificate", "", "FILE", "enable TLS on the HTTP, gRPC and metrics ports: certificate chain in PEM"},
      {"--tls-key", "", "FILE", "private key in PEM"},
      {"--tls-client-ca", "", "FILE",
       "with TLS: accept only clients with a certificate of one of these authorities (PEM), on all of these ports"},
      {"--management-socket", "", "PATH", "list, load and unload models only on this Unix socket"},
      {"--open-management", "", "", "allow everyone who can reach the port to load and unload models"},
      {kBatchCheck, "", "S", "maximum seconds to compare a model's batched results with single ones (default 10)"},
  };
}

Result<std::unique_ptr<serve::Access>> access_of(const Arguments& arguments) {
  const std::string path = arguments.get("--api-keys");
  if (path.empty()) return std::unique_ptr<serve::Access>();
  PERI_ASSIGN(auto keys, serve::read_keys(path));
  return std::make_unique<serve::Access>(std::move(keys));
}

Result<std::shared_ptr<serve::TlsContext>> tls_of(const Arguments& arguments) {
  const serve::TlsFiles own = {arguments.get("--tls-certificate"), arguments.get("--tls-key")};
  if (own.certificate.empty() != own.key.empty()) return usage("--tls-certificate and --tls-key go together");
  if (own.key.empty() && arguments.has("--tls-client-ca"))
    return usage("--tls-client-ca is for TLS").expecting("--tls-certificate and --tls-key");
  if (own.key.empty()) return std::shared_ptr<serve::TlsContext>();
  return serve::TlsContext::open(own, arguments.get("--tls-client-ca"));
}

bool nearby(const std::string& address, int port) {
  return port < 0 || address.starts_with("127.") || address == "::1";
}

Result<std::optional<serve::HttpOptions>> management_of(const Arguments& arguments, bool near,
                                                        const serve::HttpLimits& limits, bool explicit_control) {
  const std::string socket = arguments.get("--management-socket");
  if (socket.empty() && explicit_control && !near && !arguments.has("--open-management"))
    return usage("--model-control-mode explicit would let everyone who reaches the server load and unload models")
        .advise("give models a socket of their own by --management-socket PATH, or say --open-management");
  if (socket.empty()) return std::optional<serve::HttpOptions>();
  serve::HttpOptions out;
  out.port = -1;
  out.unix_socket = socket;
  out.unix_mode = 0600;
  out.limits = limits;
  return std::optional(std::move(out));
}

// The devices of --worker-devices; "": the device of the other flags.
static Result<std::vector<std::string>> devices_of(const Arguments& arguments) {
  const std::string text = arguments.get("--worker-devices");
  if (text.empty()) return std::vector<std::string>{""};
  if (arguments.has("--device"))
    return usage("--worker-devices and --device both name devices").advise("leave one out");
  if (arguments.has("--in-process")) return usage("--in-process has no worker, and --worker-devices asks for them");
  std::vector<std::string> out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
    const std::string_view kind = device::kind_of(out.back());
    const auto ordinal = device::ordinal_of(out.back());
    if (kind != "cpu" && kind != "cuda" && kind != "null")
      return usage("--worker-devices: '%s' is not a device", out.back().c_str()).expecting("cpu, or cuda:NUMBER");
    if (!ordinal.ok()) return ordinal.error();
  }
  if (out.size() > kMaxWorkers) return usage("--worker-devices names %zu devices", out.size()).expecting("64 at most");
  return out;
}

int64_t gpu_of(const std::string& device) {
  if (device.empty()) return 0;
  const auto ordinal = device::ordinal_of(device);
  return device::kind_of(device) == "cpu" || !ordinal.ok() ? -1 : *ordinal;
}

Result<serve::Turns::Copies> resources_of(const Arguments& arguments) {
  serve::Turns::Copies out;
  for (const std::string& text : arguments.all("--rate-limit-resource")) {
    const size_t colon = text.rfind(':');
    int64_t count = 0;
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(colon == std::string::npos ? end : text.data() + colon + 1, end, count);
    if (colon == 0 || colon == std::string::npos || read.ec != std::errc() || read.ptr != end || count < 0)
      return usage("--rate-limit-resource '%s'", text.c_str()).expecting("NAME:COUNT");
    if (!out.emplace(text.substr(0, colon), count).second)
      return usage("--rate-limit-resource names '%s' twice", text.substr(0, colon).c_str());
  }
  return out;
}

// Refuses a device that does not exist: no model could ever be loaded.
static Status check_devices(const Arguments& arguments, const std::vector<std::string>& devices) {
  const std::string backend = arguments.get("--backend", "auto");
  for (const std::string& own : devices) {
    std::string flag = own.empty() ? "--device" : "--worker-devices";
    std::string name = own.empty() ? arguments.get("--device") : own;
    if (name.empty()) {  // the first device of the backend
      name = backend;
      flag = "--backend";
    }
    Status there = flag == "--backend" && name != "cuda" ? Status(Ok{}) : device::check_there(name);
    if (const auto of = compile::backend_for(backend, name); flag == "--device" && !of.ok()) there = of.error();
    if (there.ok()) continue;
    Error e = std::move(there).error();
    e.message = flag + " " + name + ": " + e.message;
    if (!e.remedy.starts_with("leave --device out"))
      e.remedy += (e.remedy.empty() ? "" : ", or ") + std::string("leave ") + flag + " out";
    return e;
  }
  return Ok{};
}

Result<std::vector<serve::WorkerOptions>> worker_options(const Arguments& arguments) {
  PERI_ASSIGN(const std::vector<std::string> devices, devices_of(arguments));
  PERI_TRY(check_devices(arguments, devices));
  std::vector<serve::WorkerOptions> all;
  for (const char* flag : {"--worker-memory-mib", "--stuck-kill-secs"})
    if (arguments.has("--in-process") && arguments.has(flag))
      return usage("%s is for workers, and --in-process has none", flag).advise("leave one of them out");
  if (arguments.has("--in-process")) return all;
  serve::WorkerOptions out;
  auto program = program_path();
  if (!program.ok()) {
    Error e = std::move(program).error();
    e.remedy += ", or serve without workers: --in-process";
    return e;
  }
  out.program = *program;
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
  for (size_t k = 0; k < devices.size(); ++k) {
    all.push_back(out);
    if (devices.size() > 1) all.back().name += " " + std::to_string(k) + ", " + devices[k];
    all.back().gpu = gpu_of(devices[k].empty() ? arguments.get("--device") : devices[k]);
    if (!devices[k].empty() && device::kind_of(devices[k]) != "cpu")
      all.back().arguments.push_back("--device=" + devices[k]);
  }
  return all;
}

Result<serve::HealthOptions> health_options(const Arguments& arguments) {
  serve::HealthOptions out;
  out.lost = device::lost_device;
  PERI_ASSIGN(const double stuck, arguments.real("--stuck-secs", 0.1, 86400, 0.8));
  PERI_ASSIGN(const double canary, arguments.real("--canary-secs", 0, 86400, 10));
  out.stuck_after_ns = static_cast<int64_t>(stuck * 1e9);
  out.canary_every_ns = static_cast<int64_t>(canary * 1e9);
  return out;
}

// A counter's series is its family with "_total" behind it.
static void add_row(const char* name, const char* kind, const char* what, uint64_t value, std::string* out) {
  std::string family = name;
  if (family.ends_with("_total")) family.resize(family.size() - 6);
  *out += format("# TYPE %s %s\n# HELP %s %s\n%s %llu\n", family.c_str(), kind, family.c_str(), what, name,
                 static_cast<unsigned long long>(value));
}

void add_memory_metrics(const serve::Health& health, const serve::ResponseCache* cache, std::string* out) {
  const serve::Ram ram = serve::read_ram();
  add_row("peri_memory_bytes", "gauge", "Memory of the machine, or of the control group",
          static_cast<uint64_t>(ram.total_bytes), out);
  add_row("peri_memory_available_bytes", "gauge", "What of it is not in use",
          static_cast<uint64_t>(ram.available_bytes), out);
  add_row("peri_memory_alert", "gauge", "1: more is in use than should be; 2: batches are made smaller",
          static_cast<uint64_t>(health.memory_alert()), out);
  add_row("peri_resident_bytes", "gauge", "Memory of the server's own process",
          static_cast<uint64_t>(serve::resident_bytes()), out);
  if (cache) add_row("peri_cache_bytes", "gauge", "Answers that are kept", cache->bytes(), out);
}

std::map<std::string, serve::Ram> device_memory(const serve::Workers* workers, const serve::Repository& repository) {
  std::map<std::string, serve::Ram> out;
  const auto add = [&](const std::string& name, const device::MemoryInfo& m) {
    if (m.total_bytes > 0) out[name] = {m.total_bytes, m.available_bytes};
  };
  if (workers)
    for (const auto& [name, counts] : workers->counts()) add(name, counts.device);
  else
    for (const serve::ServedPtr& s : repository.all()) add("device", s->model->servable().device_memory());
  return out;
}

void add_device_metrics(const std::map<std::string, serve::Ram>& devices, std::string* out) {
  if (devices.empty()) return;
  const auto add = [&](const char* name, const char* what, auto bytes_of) {
    *out += format("# TYPE %s gauge\n# HELP %s %s\n", name, name, what);
    for (const auto& [device, memory] : devices)
      *out += format("%s{gpu_uuid=\"%s\"} %lld\n", name, device.c_str(), static_cast<long long>(bytes_of(memory)));
  };
  add("nv_gpu_memory_total_bytes", "Memory of each worker's device", [](const serve::Ram& m) { return m.total_bytes; });
  add("nv_gpu_memory_used_bytes", "What of it is in use, by whomever",
      [](const serve::Ram& m) { return m.total_bytes - m.available_bytes; });
}

// What the processes of the workers take.
static void add_uses(const std::vector<std::pair<std::string, serve::ProcessUse>>& uses, std::string* out) {
  const auto each = [&](const char* name, const char* what, auto of) {
    *out += format("# TYPE %s gauge\n# HELP %s %s\n", name, name, what);
    for (const auto& [worker, use] : uses)
      *out += format("%s{worker=\"%s\"} %llu\n", name, worker.c_str(), static_cast<unsigned long long>(of(use)));
  };
  each("peri_worker_resident_bytes", "Memory that each worker's process has now",
       [](const serve::ProcessUse& u) { return u.resident_bytes; });
  each("peri_worker_peak_bytes", "The most that it had", [](const serve::ProcessUse& u) { return u.peak_bytes; });
  each("peri_worker_threads", "Its threads", [](const serve::ProcessUse& u) { return u.threads; });
  each("peri_worker_descriptors", "Its open files and sockets",
       [](const serve::ProcessUse& u) { return u.descriptors; });
  *out += "# TYPE peri_worker_cpu_seconds counter\n# HELP peri_worker_cpu_seconds Its processor time\n";
  for (const auto& [worker, use] : uses)
    *out += format("peri_worker_cpu_seconds_total{worker=\"%s\"} %.3f\n", worker.c_str(), use.cpu_seconds);
}

void add_worker_metrics(const std::vector<std::pair<std::string, serve::WorkerCounts>>& all, std::string* out) {
  serve::WorkerCounts c;
  uint64_t up = 0;
  std::vector<std::pair<std::string, serve::ProcessUse>> uses;
  *out += "# TYPE peri_worker_pid gauge\n# HELP peri_worker_pid Process of each worker; 0: it is being started\n";
  for (const auto& [name, one] : all) {
    *out += format("peri_worker_pid{worker=\"%s\"} %lld\n", name.c_str(), static_cast<long long>(one.up ? one.pid : 0));
    up += one.up ? 1 : 0;
    if (one.up) uses.emplace_back(name, serve::use_of(one.pid));
    c.starts += one.starts;
    c.deaths += one.deaths;
    c.lost_requests += one.lost_requests;
    c.memory_used += one.memory_used;
    for (size_t k = 0; k < c.ends.size(); ++k) c.ends[k] += one.ends[k];
  }
  add_row("peri_worker_up", "gauge", "Worker processes that run", up, out);
  add_row("peri_worker_starts_total", "counter", "Worker processes started", c.starts, out);
  add_row("peri_worker_deaths_total", "counter", "Worker processes that ended", c.deaths, out);
  *out += "# TYPE peri_worker_ends counter\n# HELP peri_worker_ends The same, by what ended them\n";
  for (size_t k = 0; k < c.ends.size(); ++k)
    *out += format("peri_worker_ends_total{reason=\"%s\"} %llu\n", std::string(serve::kWorkerEnds[k]).c_str(),
                   static_cast<unsigned long long>(c.ends[k]));
  add_row("peri_worker_lost_requests_total", "counter", "Requests that were under way in a worker when it ended",
          c.lost_requests, out);
  add_uses(uses, out);
  add_row("peri_worker_memory_bytes", "gauge", "Tensors on their way to and from the worker", c.memory_used, out);
}

}  // namespace peri::cli
