// peri serve: serves a repository of models with KServe v2 over HTTP and gRPC, until a signal drains it.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <thread>

#include "base/clock.hpp"
#include "base/json.hpp"
#include "base/plural.hpp"
#include "base/thread_pool.hpp"
#include "build/servable.hpp"
#include "cli/console/bell.hpp"
#include "cli/console/limits.hpp"
#include "cli/console/model.hpp"
#include "cli/console/serving.hpp"
#include "cli/console/tuning.hpp"
#include "cli/console/watching.hpp"
#include "serve/access/refused_clients.hpp"
#include "serve/grpc/server.hpp"
#include "serve/observe/pages.hpp"

namespace peri::cli {

extern const Entry serve_entry;

namespace {

constexpr int64_t kMaxPemBytes = 1 << 20;
constexpr int64_t kLastWordsSeconds = 1;  // to tell clients that their requests are not answered

// The configuration from the flags.
struct Plan {
  serve::HttpOptions http, metrics;
  bool has_http = true;
  serve::GrpcOptions grpc;
  serve::RepositoryOptions repository;
  serve::ApiOptions api;
  build::ServeOptions build;
  std::vector<serve::WorkerOptions> workers;  // one per device
  serve::HealthOptions health;
  std::optional<serve::HttpOptions> management;
  int64_t exit_timeout_s = 30;
};

Result<serve::Control> control_of(const Arguments& a) {
  const std::string mode = a.get("--model-control-mode", "none");
  if (mode == "none") return serve::Control::kNone;
  if (mode == "poll") return serve::Control::kPoll;
  if (mode == "explicit") return serve::Control::kExplicit;
  return usage("--model-control-mode '%s'", mode.c_str()).expecting("none, poll or explicit");
}

// Two listeners would replace each other's socket.
Status check_sockets(const Arguments& a) {
  std::map<std::filesystem::path, const char*> seen;
  for (const char* flag : {"--http-socket", "--grpc-socket", "--management-socket"}) {
    std::error_code failed;
    if (!a.has(flag)) continue;
    // weakly_canonical() leaves a relative path unresolved if its folder does not exist.
    const auto whole = std::filesystem::weakly_canonical(std::filesystem::absolute(a.get(flag), failed), failed);
    const auto [at, fresh] = seen.emplace(whole, flag);
    if (!fresh)
      return usage("%s and %s are one socket", at->second, flag)
          .in_file(a.get(flag))
          .advise("give each one of its own");
  }
  return Ok{};
}

Status read_addresses(const Arguments& a, Plan* plan) {
  plan->http.address = a.get("--http-address", "127.0.0.1");
  plan->metrics.address = a.get("--metrics-address", plan->http.address);
  plan->http.unix_socket = a.get("--http-socket");
  PERI_ASSIGN(const int64_t port, a.number("--http-port", -1, 65535, 8000));
  PERI_ASSIGN(const int64_t metrics, a.number("--metrics-port", -1, 65535, 8002));
  PERI_ASSIGN(const int64_t threads, a.number("--http-threads", 1, 256, std::clamp(usable_cpus() / 4, 1, 8)));
  plan->has_http = port >= 0 || !plan->http.unix_socket.empty();
  PERI_TRY(check_sockets(a));
  plan->http.port = static_cast<int>(port);
  plan->metrics.port = static_cast<int>(metrics);
  plan->http.threads = static_cast<int>(threads);
  return Ok{};
}

Status read_grpc(const Arguments& a, Plan* plan) {
  serve::GrpcOptions& grpc = plan->grpc;
  grpc.address = a.get("--grpc-address", plan->http.address);
  grpc.limits = plan->http.limits;
  grpc.unix_socket = a.get("--grpc-socket");
  PERI_ASSIGN(const int64_t port, a.number("--grpc-port", -1, 65535, 8001));
  PERI_ASSIGN(const int64_t threads, a.number("--grpc-threads", 1, 256, 1));
  if (!plan->has_http && port < 0 && grpc.unix_socket.empty())
    return usage("--http-port -1 and --grpc-port -1 leave the server nothing to listen on")
        .advise("give one of them, or a --http-socket or --grpc-socket");
  grpc.port = static_cast<int>(port);
  grpc.threads = static_cast<int>(threads);
  return read_grpc_limits(a, plan->api.limits, &grpc);
}

Result<Plan> plan_of(const Arguments& a) {
  Plan plan;
  PERI_TRY(read_addresses(a, &plan));
  PERI_ASSIGN(plan.http.limits, http_limits(a));
  PERI_ASSIGN(plan.metrics.limits, own_limits(a, plan.http.limits));
  plan.repository.root = a.get("--model-repository");
  if (plan.repository.root.empty())
    return usage("peri serve needs --model-repository DIR").advise("see: peri serve --help");
  PERI_ASSIGN(plan.repository.control, control_of(a));
  plan.repository.at_start = a.all("--load-model");
  if (!plan.repository.at_start.empty() && plan.repository.control != serve::Control::kExplicit)
    return usage("--load-model needs --model-control-mode explicit");
  for (const std::string& name : plan.repository.at_start)
    if (name != "*" && !serve::plain_name(name))
      return usage("--load-model '%s' is not a valid model name", name.c_str())
          .expecting("letters, digits, '.', '_', '-' and '+', or * for all");
  if (a.has("--repository-poll-secs") && plan.repository.control != serve::Control::kPoll)
    return usage("--repository-poll-secs needs --model-control-mode poll");
  PERI_ASSIGN(const double poll, a.real("--repository-poll-secs", 0.05, 86400, 2));
  plan.repository.poll_ms = static_cast<int64_t>(poll * 1000);
  PERI_ASSIGN(plan.repository.max_queue, a.number("--max-queue", 1, 10000000, plan.repository.max_queue));
  PERI_ASSIGN(const int64_t inline_us, a.number("--inline-us", 0, 1000000, plan.repository.inline_ns / 1000));
  plan.repository.inline_ns = inline_us * 1000;
  PERI_ASSIGN(plan.build.threads, thread_count(a));
  PERI_ASSIGN(plan.build.build, build_request(a, "", nullptr));
  PERI_TRY(build::check_request(plan.build.build));
  const auto& dims = plan.build.build.dims;
  if (const auto batch = dims.find("batch"); batch != dims.end() && batch->second == 0)
    return usage("dimension 'batch' is 0, and a server forms batches").expecting("at least 1");
  PERI_ASSIGN(plan.build.check_seconds, a.real("--batch-check-secs", 0, 3600, plan.build.check_seconds));
  PERI_ASSIGN(plan.exit_timeout_s, a.number("--exit-timeout-secs", 0, 86400, 30));
  PERI_ASSIGN(plan.api.limits, infer_limits(a, plan.http.limits));
  PERI_ASSIGN(plan.api.text, text_limits(a, plan.api.limits));
  plan.api.id = a.get("--id", plan.api.id);
  if (std::any_of(plan.api.id.begin(), plan.api.id.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }))
    return usage("--id is not a name").expecting("no line ends or other control characters").but_found(plan.api.id);
  plan.api.expanded_bytes = plan.http.limits.body_bytes;
  PERI_TRY(read_grpc(a, &plan));
  PERI_ASSIGN(plan.workers, worker_options(a));
  const int cpus = usable_cpus() * static_cast<int>(std::max<size_t>(plan.workers.size(), 1));
  PERI_ASSIGN(const int64_t at_once, a.number("--runs-at-once", 1, 100000, cpus));
  PERI_ASSIGN(serve::Turns::Copies copies, resources_of(a));
  plan.repository.turns = std::make_shared<serve::Turns>(static_cast<int>(at_once), std::move(copies),
                                                         static_cast<int>(std::max<size_t>(plan.workers.size(), 1)));
  plan.repository.config_name = a.get("--model-config-name");
  if (!plan.repository.config_name.empty() && !serve::plain_name(plan.repository.config_name))
    return usage("--model-config-name '%s'", plan.repository.config_name.c_str()).expecting("a plain file name");
  PERI_ASSIGN(plan.health, health_options(a));
  const bool loads = plan.repository.control == serve::Control::kExplicit;
  PERI_ASSIGN(const int64_t cache_mib, a.number("--cache-mib", 0, 1 << 24, 64));
  if (cache_mib > 0)
    plan.repository.cache = std::make_shared<serve::ResponseCache>(static_cast<size_t>(cache_mib) << 20);
  PERI_ASSIGN(plan.http.tls, tls_of(a));
  plan.metrics.tls = plan.http.tls;
  if (plan.http.tls) {
    PERI_ASSIGN(plan.grpc.certificate, read_file(a.get("--tls-certificate"), kMaxPemBytes));
    PERI_ASSIGN(plan.grpc.key, read_file(a.get("--tls-key"), kMaxPemBytes));
    if (a.has("--tls-client-ca")) {
      PERI_ASSIGN(plan.grpc.client_ca, read_file(a.get("--tls-client-ca"), kMaxPemBytes));
    }
  }
  const bool near = nearby(plan.http.address, plan.http.port) && nearby(plan.grpc.address, plan.grpc.port);
  PERI_ASSIGN(plan.management, management_of(a, near, plan.metrics.limits, loads));
  plan.api.public_management = !plan.management;
  plan.api.public_settings = !plan.management && (near || a.has("--open-management"));
  return plan;
}

// Loads models in the worker processes, or in this process.
serve::Loader loader_of(const Plan& plan, serve::Workers* workers) {
  if (workers) return [workers](const serve::LoadOrder& order, const auto& told) { return workers->load(order, told); };
  return [&plan](const serve::LoadOrder& order, const auto& told) -> Result<serve::Loaded> {
    PERI_TRY(serve::check_gpus(order.config, {gpu_of(plan.build.build.device)}));
    return build::load_servable(plan.build, order, told);
  };
}

// Event loops take the workers' answers, and what their processes take is told.
void know_workers(serve::Workers& workers, Plan* plan) {
  plan->http.guest = [&workers] { return workers.guest(); };
  plan->api.workers = [&workers] {
    std::vector<serve::NamedProcess> out;
    for (const auto& [name, counts] : workers.counts())
      if (counts.up) out.push_back({name, counts.pid});
    return out;
  };
}

// Clients whose certificates are not accepted are logged.
void tell_refused(serve::RefusedClients& refused, Plan* plan) {
  plan->http.refused_client = [&](const std::string& client, const std::string& why) { refused.tell(client, why); };
  plan->metrics.refused_client = plan->http.refused_client;
  if (!plan->grpc.client_ca.empty())
    plan->grpc.refused_client = [&](const std::string& why) { refused.tell("a client of gRPC", why); };
}

// Keys are checked before the body of a request is read; without keys everything is permitted.
void ask_for_keys(serve::Access& keys, const serve::Api& api, Plan* plan) {
  const auto refusal = [&api](serve::HttpRequest& r) { return api.refusal(r); };
  plan->http.refusal = refusal;
  plan->metrics.refusal = [refusal](serve::HttpRequest& r) {
    return r.method != "POST" && serve::is_page(r.target) ? std::nullopt : refusal(r);
  };
  if (plan->management) plan->management->refusal = refusal;
  plan->grpc.refuses = [&keys](std::string_view authorization, uint32_t* key) {
    return keys.admit(*key = keys.find(authorization), false, 0).why;
  };
}

// Null if models are managed on the public listener.
Result<std::unique_ptr<serve::HttpServer>> manage(std::optional<serve::HttpOptions> options, serve::Api& api) {
  if (!options) return std::unique_ptr<serve::HttpServer>();
  return serve::HttpServer::start(*options, [&](const auto& e) { api.handle(e, serve::Way::kManagement); });
}

// Waits until all requests are answered and their connections closed, at most `seconds`. False: some were not answered.
bool drained(const serve::Api& api, const serve::HttpServer* http, int64_t seconds) {
  const int64_t start = now_ns();
  while ((api.open() > 0 || (http && http->connections() > 0)) && seconds_since(start) < static_cast<double>(seconds))
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return api.open() == 0;
}

// Ends the program: threads are still processing these requests.
[[noreturn]] void end_unanswered(serve::Api& api, const serve::HttpServer* http,
                                 std::unique_ptr<serve::GrpcServer> grpc, int64_t seconds) {
  const int64_t left = api.open();
  api.give_up();
  grpc.reset();
  (void)drained(api, http, kLastWordsSeconds);
  say(format("FAILED serve: %s not answered within %lld s, and told so (503)", counted(left, "request").c_str(),
             static_cast<long long>(seconds)));
  _exit(1);
}

std::string places(const serve::HttpServer* http, const serve::HttpServer* metrics, const serve::GrpcServer* grpc,
                   const Plan& plan) {
  std::string out;
  if (plan.http.port >= 0)
    out += format("http%s://%s:%d", plan.http.tls ? "s" : "", plan.http.address.c_str(), http->port());
  if (!plan.http.unix_socket.empty()) out += (out.empty() ? "" : ", ") + plan.http.unix_socket;
  const auto next = [&] { return out.empty() ? "" : "; "; };
  if (grpc && plan.grpc.port >= 0) out += next() + format("gRPC at %s:%d", plan.grpc.address.c_str(), grpc->port());
  if (!plan.grpc.unix_socket.empty()) out += next() + ("gRPC at " + plan.grpc.unix_socket);
  if (metrics)
    out += format("; metrics at http%s://%s:%d/metrics, a page at /dashboard", plan.http.tls ? "s" : "",
                  plan.metrics.address.c_str(), metrics->port());
  return out;
}

// Waits for a signal that ends the server; logs when all models are loaded, and reopens the logs on SIGHUP.
void wait_for_signal(const serve::Repository& repository, serve::Observer* observer, const serve::Log& log) {
  bool told = false;
  while (!interrupted()) {
    if (!told && repository.ready()) {
      log("ready");
      told = true;
    }
    if (hung_up())
      for (const Status& s : {reopen_log(), observer ? observer->reopen() : Status(Ok{})})
        if (!s.ok()) log({serve::LogLevel::kError, s.error().text()});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Outcome outcome_of(uint64_t answered, double seconds) {
  Outcome out;
  out.summary = counted(static_cast<int64_t>(answered), "request") + format(" in %.1f s", seconds);
  JsonWriter w;
  out.json = w.begin_object().field("inferences", answered).field("seconds", seconds).end_object().take();
  return out;
}

Result<Outcome> run(const Arguments& arguments) {
  mallopt(M_MMAP_MAX, 65536);  // memory of request bodies is returned to the system
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  PERI_ASSIGN(Plan plan, plan_of(arguments));
  PERI_ASSIGN(const serve::LogSettings said, log_settings(arguments));
  serve::ServerLog server_log(said, [](const std::string& line) { say(line); });
  const serve::Log log = [&](const serve::LogLine& line) { server_log.say(line); };
  plan.repository.log = log;
  PERI_ASSIGN(plan.repository.settle, tuner_of(arguments, log));
  PERI_ASSIGN(const auto observer, open_observer(arguments, server_log));
  plan.api.observer = observer.get();
  plan.api.log = &server_log;
  plan.build.build.stop = interrupted;
  plan.health.log = log;
  for (serve::WorkerOptions& w : plan.workers) w.log = log;
  std::unique_ptr<serve::Workers> workers;
  if (!plan.workers.empty()) {
    PERI_ASSIGN(workers, serve::Workers::start(plan.workers));
    know_workers(*workers, &plan);
  }
  PERI_ASSIGN(const std::unique_ptr<serve::Access> access_keys, access_of(arguments));
  plan.api.access = access_keys.get();
  Bell bell;
  plan.repository.changed = [&bell] { bell.look_and_ring(); };
  plan.health.changed = [&bell] { bell.ring(); };
  serve::Repository repository(plan.repository, loader_of(plan, workers.get()));
  plan.health.read_devices = [&] { return device_memory(workers.get(), repository); };
  serve::Health health(repository, plan.health);
  plan.api.add_metrics = [&](std::string* out) {
    if (workers) add_worker_metrics(workers->counts(), out);
    add_device_metrics(device_memory(workers.get(), repository), out);
    add_memory_metrics(health, plan.repository.cache.get(), out);
  };
  serve::Api api(repository, plan.api);
  if (access_keys) ask_for_keys(*access_keys, api, &plan);
  serve::RefusedClients refused_clients(log);
  tell_refused(refused_clients, &plan);
  std::unique_ptr<serve::HttpServer> http, metrics;
  if (plan.has_http) {
    PERI_ASSIGN(http, serve::HttpServer::start(plan.http, [&](const auto& exchange) { api.handle(exchange); }));
  }
  PERI_ASSIGN(auto management, manage(plan.management, api));
  if (plan.metrics.port >= 0) {
    PERI_ASSIGN(metrics, serve::HttpServer::start(plan.metrics, [&](const auto& e) { serve::answer_pages(api, e); }));
  }
  std::unique_ptr<serve::GrpcServer> grpc;
  if (plan.grpc.port >= 0 || !plan.grpc.unix_socket.empty()) {
    plan.grpc.ready = [&api](std::string_view model) { return api.readiness(model); };
    PERI_ASSIGN(grpc, serve::GrpcServer::start(plan.grpc, [&](const auto& exchange) { api.handle(exchange); }));
  }
  bell.hand_to(grpc.get(), &health);
  const int64_t start = now_ns();
  PERI_TRY(repository.start());
  health.start();
  log("listening on " + places(http.get(), metrics.get(), grpc.get(), plan));
  wait_for_signal(repository, observer.get(), log);
  log("draining");
  api.drain();
  if (http) http->drain();
  if (grpc) grpc->drain(plan.exit_timeout_s + kLastWordsSeconds);
  const bool all_answered = drained(api, http.get(), plan.exit_timeout_s);
  bell.hand_to(nullptr, nullptr);
  if (!all_answered) end_unanswered(api, http.get(), std::move(grpc), plan.exit_timeout_s);
  http.reset();
  grpc.reset();
  metrics.reset();
  management.reset();
  if (workers) workers->stop();
  return outcome_of(api.answered(), seconds_since(start));
}
std::vector<Flag> serving_flags() {
  std::vector<Flag> out = {
      {"--profile", "", "FILE", "read flags from a YAML or JSON file; the command line takes precedence"}};
  for (const Flag& f : limit_flags()) out.push_back(f);
  for (const Flag& f : tuning_flags()) out.push_back(f);
  for (const Flag& f : watching_flags()) out.push_back(f);
  for (const Flag& f : worker_flags()) out.push_back(f);
  return out;
}
}  // namespace

const Entry serve_entry{{
    .name = "serve",
    .summary = "serve a repository of models over HTTP and gRPC (KServe v2, OpenAI embeddings)",
    .flags = build_flags(
        {{"--model-repository", "", "DIR", "folder of <model>/<version>/model.engine or model.onnx, and config.pbtxt",
          false, nullptr, "--model-store"},
         {"--model-control-mode", "", "none|poll|explicit",
          "none: load all models at start; poll: also follow changes of the folder; explicit: clients load and unload"},
         {"--load-model", "", "NAME", "with explicit: load this model at start; *: all", true},
         {"--model-config-name", "", "NAME",
          "use configs/NAME.pbtxt or .yaml in a model's folder as its configuration, if present"},
         {"--repository-poll-secs", "", "S", "with poll: seconds between checks (default 2)"},
         {"--http-address", "", "IP", "address to listen on (default 127.0.0.1)"},
         {"--http-port", "", "PORT", "port (default 8000; 0: any free one; -1: none)"},
         {"--http-socket", "", "PATH", "also listen on a Unix socket"},
         {"--http-threads", "", "N", "threads that read and write requests (default: a quarter of the CPUs, 1 to 8)",
          false, nullptr, "--http-thread-count"},
         {"--grpc-address", "", "IP", "address for gRPC (default: --http-address)"},
         {"--grpc-port", "", "PORT", "port for gRPC (default 8001; 0: any free one; -1: none)"},
         {"--grpc-socket", "", "PATH", "also serve gRPC on a Unix socket"},
         {"--grpc-threads", "", "N", "threads that read and write gRPC calls (default 1)"},
         {"--metrics-address", "", "IP", "address for /metrics and /dashboard (default: --http-address)"},
         {"--metrics-port", "", "PORT", "port for /metrics (default 8002; 0: any; -1: none)"},
         {"--id", "", "NAME", "the server's name in its metadata (default peri)"},
         {"--max-queue", "", "N",
          "requests that may be queued for a model, unless its configuration says otherwise (default 1024)"},
         {"--inline-us", "", "US", "run requests expected to take at most this long on the I/O thread (default 40)"},
         {"--exit-timeout-secs", "", "S",
          "seconds to finish requests in progress at shutdown (default 30); exit code 1 if some take longer"}},
        serving_flags()),
    .details = "example:\n  peri serve --model-repository models/repository",
    .run = run,
    .stops = true,
    .runs_until_signal = true,
}};

}  // namespace peri::cli
