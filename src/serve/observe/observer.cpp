// The tracer's thread sends collected spans every half second or every 512 requests.
#include "serve/observe/observer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <span>
#include <thread>

#include <vector>
#include "serve/repository/scan.hpp"

#include "base/clock.hpp"
#include "base/fault.hpp"
#include "base/wall_clock.hpp"
#include "serve/load/endpoint.hpp"
#include "serve/repository/scan.hpp"

namespace peri::serve {
namespace {
constexpr size_t kMaxWaiting = 8192;
constexpr size_t kOfOneSend = 512;
}  // namespace

// A file to which whole lines are appended.
class Observer::File {
 public:
  explicit File(std::string path) : path_(std::move(path)) {}
  Status open() {
    if (path_ == "-") return Ok{};
    Fd fresh(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
    if (!fresh.valid()) return os_error("open", path_);
    const std::lock_guard<std::mutex> lock(mutex_);
    fd_ = std::move(fresh);
    return Ok{};
  }
  void add(std::string line) {
    line += '\n';
    const std::lock_guard<std::mutex> lock(mutex_);
    const int fd = path_ == "-" ? STDERR_FILENO : fd_.get();
    if (write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ++lost;
  }
  std::atomic<uint64_t> lost{0};

 private:
  const std::string path_;
  std::mutex mutex_;
  Fd fd_;
};

class Observer::Tracer {
 public:
  Tracer(Endpoint where, const ObserveOptions& options)
      : where_(std::move(where)), options_(options), offset_(wall_ns() - now_ns()), thread_([this] { work(); }) {}
  ~Tracer() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  TraceContext begin(std::string_view traceparent, std::string_view model, TraceSettings& settings) {
    TraceContext out;
    const bool told = read_traceparent(traceparent, &out);
    out.sampled = settings.take(model, told ? std::optional(out.sampled) : std::nullopt);
    if (out.sampled && !told) make_id(&out.trace_id);
    if (out.sampled) make_id(&out.span_id);
    return out;
  }
  void add(RequestRecord record) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (waiting_.size() >= kMaxWaiting) {
      ++dropped;
      return;
    }
    waiting_.push_back(std::move(record));
    if (waiting_.size() == kOfOneSend) wake_.notify_one();
  }
  std::atomic<uint64_t> sent{0}, dropped{0};

 private:
  template <size_t N>
  void make_id(std::array<uint8_t, N>* id) {
    for (size_t k = 0; k < N; k += 8) {
      uint64_t z = (options_.seed ^ ids_.fetch_add(1, std::memory_order_relaxed)) * 0x9e3779b97f4a7c15ull + 1;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
      z = (z ^ (z >> 31)) | 1;
      for (size_t b = 0; b < 8; ++b) (*id)[k + b] = static_cast<uint8_t>(z >> 8 * b);
    }
  }
  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      wake_.wait_for(lock, std::chrono::milliseconds(500), [&] { return stopping_ || waiting_.size() >= kOfOneSend; });
      std::vector<RequestRecord> some;
      some.swap(waiting_);
      const bool last = stopping_;
      lock.unlock();
      for (size_t k = 0; k < some.size(); k += kOfOneSend)
        send(std::span(some).subspan(k, std::min(kOfOneSend, some.size() - k)), last);
      lock.lock();
      if (last) return;
    }
  }
  void send(std::span<const RequestRecord> some, bool last) {
    const auto done = contained([&] {
      return http_ask(where_, "POST", where_.path + "/v1/traces", otlp_json(some, offset_), "application/json",
                      last ? 2000 : 10000);
    });
    const bool good = done.ok() && done->status / 100 == 2;
    (good ? sent : dropped) += some.size();
    if (!good && !failing_ && options_.say)
      options_.say(
          {LogLevel::kWarning, "traces are not taken by " + where_.text() + ": " +
                                   (done.ok() ? "status " + std::to_string(done->status) : done.error().text())});
    failing_ = !good;
  }

  const Endpoint where_;
  const ObserveOptions options_;
  const int64_t offset_;
  std::atomic<uint64_t> ids_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<RequestRecord> waiting_;
  bool stopping_ = false, failing_ = false;
  std::thread thread_;
};

Observer::Observer() = default;
Observer::~Observer() = default;

Result<std::unique_ptr<Observer>> Observer::open(const ObserveOptions& options) {
  std::unique_ptr<Observer> out(new Observer());
  out->server_log_ = options.server_log;
  out->traces_ = std::make_unique<TraceSettings>(
      TraceDefaults{!options.otlp_endpoint.empty(), options.trace_one_in, options.trace_count});
  if (!options.access_log.empty()) {
    out->log_ = std::make_unique<File>(options.access_log);
    PERI_TRY(out->log_->open());
  }
  if (!options.otlp_endpoint.empty()) {
    if (options.trace_one_in < 1)
      return usage("one trace in %lld requests", static_cast<long long>(options.trace_one_in));
    if (options.otlp_endpoint.find("://") == std::string::npos && !options.otlp_endpoint.starts_with("unix:"))
      return usage("--otlp-endpoint '%s' is not a URL", options.otlp_endpoint.c_str())
          .expecting("one like http://127.0.0.1:4318");
    PERI_ASSIGN(Endpoint where, Endpoint::parse(options.otlp_endpoint, 4318));
    out->tracer_ = std::make_shared<Tracer>(std::move(where), options);
  }
  return out;
}

// The NAME in "/v2/models/NAME...", decoded; empty: the path has none.
static std::string_view model_of(std::string_view target) {
  constexpr std::string_view kModels = "/v2/models/";
  if (!target.starts_with(kModels)) return {};
  target.remove_prefix(kModels.size());
  return target.substr(0, target.find_first_of("/?"));
}

TraceContext Observer::trace(std::string_view traceparent, std::string_view target) {
  if (!tracer_) return {};
  const std::string_view name = model_of(target);
  if (name.find('%') == std::string_view::npos) return tracer_->begin(traceparent, name, *traces_);
  return tracer_->begin(traceparent, decoded_name(name), *traces_);
}

void Observer::log(const RequestRecord& record) {
  const bool verbose = server_log_ && server_log_->verbose();
  if (!log_ && !verbose) return;
  std::string line = access_line(record, wall_seconds());
  if (verbose) server_log_->say({LogLevel::kVerbose, line});
  if (log_) log_->add(std::move(line));
}

std::shared_ptr<const void> Observer::until_sent(RequestRecord record) {
  struct Pending {
    std::shared_ptr<Tracer> tracer;
    RequestRecord record;
    ~Pending() {
      record.sent_ns = now_ns();
      tracer->add(std::move(record));
    }
  };
  if (!tracer_) return nullptr;
  auto pending = std::make_shared<Pending>();
  pending->tracer = tracer_;
  pending->record = std::move(record);
  return pending;
}

Status Observer::reopen() { return log_ ? log_->open() : Status(Ok{}); }

std::string Observer::metrics() const {
  std::string out;
  const auto line = [&](const char* name, const char* help, const std::string& labels, uint64_t v) {
    const std::string family(name, std::string_view(name).size() - std::string_view("_total").size());
    if (help) out += format("# HELP %s %s\n# TYPE %s counter\n", family.c_str(), help, family.c_str());
    out += name + labels + " " + std::to_string(v) + "\n";
  };
  if (log_) line("peri_access_log_lost_total", "Lines that the log did not take", "", log_->lost);
  if (tracer_) {
    line("peri_traces_total", "Traces by what became of them", "{result=\"sent\"}", tracer_->sent);
    line("peri_traces_total", nullptr, "{result=\"dropped\"}", tracer_->dropped);
  }
  return out;
}

}  // namespace peri::serve
