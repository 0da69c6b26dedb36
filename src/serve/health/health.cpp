// A canary uses the path of client requests, so that every component between a client and a response is checked too.
#include "serve/health/health.hpp"

#include "base/clock.hpp"

namespace peri::serve {

constexpr int kMaxPasses = 8;  // over all models at a look: ensembles of ensembles, so deep

// State of one model; outlives the model if a canary's answer is late.
struct Health::Watched {
  std::mutex mutex;
  bool asked = false;  // sent and not yet answered
  int64_t next_ns = 0;
  std::string fault;
  bool seen = false;               // in this check
  std::weak_ptr<const Served> of;  // detects that a later model was allocated at the same address
};

Health::Health(const Repository& repository, HealthOptions options)
    : repository_(repository), options_(std::move(options)) {}

Health::~Health() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Health::start() {
  thread_ = std::thread([this] {
    std::unique_lock<std::mutex> lock(mutex_);
    uint64_t looks = 0;
    while (!wake_.wait_for(lock, std::chrono::milliseconds(options_.look_ms), [&] { return stopping_; })) {
      lock.unlock();
      look(now_ns());
      if (++looks % 20 == 1) look_at_memory();
      lock.lock();
    }
  });
}

void Health::look_at_memory() {
  Ram fullest = options_.read_memory();
  std::string name;
  if (options_.read_devices)
    for (const auto& [device, memory] : options_.read_devices())
      if (memory.known() && (!fullest.known() || memory.used_share() > fullest.used_share())) {
        fullest = memory;
        name = " of " + device;
      }
  const double used = fullest.used_share();
  const MemoryAlert now = !fullest.known() || used < options_.memory_high ? MemoryAlert::kNone
                          : used < options_.memory_full                   ? MemoryAlert::kHigh
                                                                          : MemoryAlert::kFull;
  if (now == MemoryAlert::kFull)
    for (const ServedPtr& s : repository_.all()) s->model->make_batches_smaller();
  if (alert_.exchange(now) == now || !options_.log) return;
  options_.log({now == MemoryAlert::kNone ? LogLevel::kInfo : LogLevel::kWarning,
                format("memory%s: %.0f %% of %.0f MiB are in use%s", name.c_str(), 100 * used,
                       static_cast<double>(fullest.total_bytes) / (1 << 20),
                       now == MemoryAlert::kFull ? ": batches are made smaller" : "")});
}

// The difference from the recorded answer; empty: none.
static std::string difference(const std::vector<Tensor>& wanted, const std::vector<std::string>& names,
                              const Answer& answer) {
  if (answer.error) return "a known question gets an error: " + answer.error->text();
  for (size_t k = 0; k < wanted.size(); ++k)
    if (k >= answer.outputs.size() || !answer.outputs[k].same_content(wanted[k]))
      return "a known question gets another answer than when it was loaded, in output '" + names[k] + "'";
  return {};
}

// The model holds the call until it is answered, and the call must not hold the model: the expected outputs are
// captured separately.
void Health::ask(const ServedPtr& served, const std::shared_ptr<Watched>& canary) {
  auto call = std::make_shared<Call>();
  call->inputs = served->canary.inputs;
  call->probe = true;
  std::vector<std::string> names;
  for (const plan::Port& p : served->model->servable().outputs()) names.push_back(p.name);
  call->done = [canary, wanted = served->canary.outputs, names](Answer answer) {
    const bool busy =
        answer.error && (answer.error->kind == ErrorKind::kRefused || answer.error->kind == ErrorKind::kCancelled);
    const std::string fault = busy ? "" : difference(wanted, names, answer);
    const std::lock_guard<std::mutex> lock(canary->mutex);
    canary->asked = false;
    if (!busy) canary->fault = fault;
  };
  served->model->submit(call);
}

// An ensemble may have the troubles of its models, and be a model of another one: again until nothing is new.
void Health::look(int64_t now) {
  const std::lock_guard<std::mutex> looking(look_mutex_);
  for (int k = 0; k < kMaxPasses && look_once(now); ++k) {}
}

// Whether a model's state has changed.
bool Health::look_once(int64_t now) {
  bool news = false;
  for (auto& [model, canary] : canaries_) canary->seen = false;
  const std::optional<Error> lost = options_.lost ? options_.lost() : std::nullopt;
  for (const ServedPtr& s : repository_.all()) {
    Model& model = *s->model;
    std::shared_ptr<Watched>& canary = canaries_[&model];
    if (!canary || canary->of.lock() != s) canary = std::make_shared<Watched>();
    canary->of = s;
    canary->seen = true;
    std::string why = lost ? lost->message : model.servable().trouble();
    if (model.stuck(now, options_.stuck_after_ns) && why.empty()) why = "work is under way and nothing of it gets done";
    bool due = false;
    {
      const std::lock_guard<std::mutex> lock(canary->mutex);
      due = why.empty() && options_.canary_every_ns > 0 && !s->canary.outputs.empty() && !canary->asked &&
            now >= canary->next_ns;
      if (due) canary->next_ns = now + options_.canary_every_ns;
      canary->asked = canary->asked || due;
      if (why.empty()) why = canary->fault;
    }
    if (due) ask(s, canary);
    if (why == model.trouble()) continue;
    if (options_.log)
      options_.log({why.empty() ? LogLevel::kInfo : LogLevel::kError,
                    model.name() + " version " + model.version_text() +
                        (why.empty() ? " is ready again" : " is not ready: " + why)});
    model.set_trouble(std::move(why));
    news = true;
    if (options_.changed) options_.changed();
  }
  std::erase_if(canaries_, [](const auto& row) { return !row.second->seen; });
  return news;
}

}  // namespace peri::serve
