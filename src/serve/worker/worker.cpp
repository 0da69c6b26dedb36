// One thread starts, watches and buries. Orders go over the socket one at a time; the socket of a process that died
// ends the order under way.
#include "serve/worker/worker.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>

#include "base/clock.hpp"
#include "base/plural.hpp"
#include "serve/worker/process.hpp"
#include "serve/worker/remote.hpp"

namespace peri::serve {

namespace {
constexpr int kLookMs = 50;
constexpr int64_t kTrimNs = 1'000'000'000;
constexpr int kStartPatienceS = 60;
constexpr int kDeathsOverALoad = 2;  // then a model is not tried again

using RemotePtr = std::shared_ptr<RemoteServable>;
}  // namespace

struct Worker::State : std::enable_shared_from_this<Worker::State> {
  explicit State(WorkerOptions o) : options(std::move(o)) {}

  Status begin();
  void watch();
  void end_process();
  bool look();
  void mourn();
  void restore();
  bool load_again(const RemotePtr& remote, const std::shared_ptr<Link>& to);
  void try_again(int64_t now);
  Result<LoadedThere> ask(const LoadOrder& order, uint32_t id, const std::function<void(const std::string&)>& say);
  Result<Loaded> load(const LoadOrder& order, const std::function<void(const std::string&)>& say);
  void forget(uint32_t id);
  std::vector<RemotePtr> remotes();
  void log(LogLevel level, const std::string& line) const {
    if (options.log) options.log({level, options.name + ": " + line});
  }

  const WorkerOptions options;
  std::mutex control;  // an order under way; of `process`
  WorkerProcess process;
  std::mutex send;  // frames are whole
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<Link> link;  // null: no process
  std::map<uint32_t, std::weak_ptr<RemoteServable>> models;
  WorkerCounts counts;
  bool stopping = false;
  // Of the watching thread.
  uint64_t beats = 0, done = 0;
  int64_t beat_ns = 0, done_ns = 0, trim_ns = 0, tried_ns = 0;
  WorkerEnd ended_for = WorkerEnd::kSignal;
  std::thread thread;
  std::thread retrying;  // loads what could not be loaded again; a load may take as long as it likes
  std::atomic<bool> retries{false};
};

// A process, and a link to it. REQUIRES: `control` is held.
Status Worker::State::begin() {
  PERI_ASSIGN(auto region, Region::create(options.memory_bytes));
  PERI_ASSIGN(process, start_process(options.program, options.arguments, region->fd()));
  const timeval patience{kStartPatienceS, 0}, none{0, 0};
  setsockopt(process.socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const auto hello = receive_frame(process.socket.get());
  if (!hello.ok() || !hello->json.find("ready")) {
    kill(process.pid, SIGKILL);
    const std::string how = bury(&process);
    return refused("the worker process was not ready: it %s", how.c_str()).in_file(options.program);
  }
  setsockopt(process.socket.get(), SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
  const std::lock_guard<std::mutex> lock(mutex);
  link = Link::begin(std::move(region));
  counts.up = true;
  counts.pid = process.pid;
  ++counts.starts;
  beat_ns = done_ns = now_ns();
  return Ok{};
}

std::vector<RemotePtr> Worker::State::remotes() {
  std::vector<RemotePtr> out;
  const std::lock_guard<std::mutex> lock(mutex);
  for (const auto& [id, weak] : models)
    if (RemotePtr r = weak.lock()) out.push_back(std::move(r));
  return out;
}

void Worker::State::watch() {
  while (true) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (stopping) return;
    }
    if (!look()) continue;
    mourn();
    restore();
  }
}

// Whether the process has ended. One that stands still, or gets nothing done, is ended.
bool Worker::State::look() {
  pollfd ended{process.ended.get(), POLLIN, 0};
  if (poll(&ended, 1, kLookMs) > 0) return true;
  const int64_t now = now_ns();
  const std::shared_ptr<Link> l = link;  // written by this thread alone
  const uint64_t beat = l->region().head().beats.load(std::memory_order_relaxed);
  if (beat != beats) beat_ns = now;
  beats = beat;
  uint64_t steps = l->answered();
  const std::vector<RemotePtr> all = remotes();
  for (const RemotePtr& r : all) {
    steps += l->region().head().steps[r->id()].load(std::memory_order_relaxed);
    r->set_still(now - beat_ns > options.stuck_after_ns);
  }
  if (steps != done || l->under_way() == 0) done_ns = now;
  done = steps;
  if (now - trim_ns > kTrimNs) {
    l->trim();
    trim_ns = now;
  }
  if (now - tried_ns > options.retry_ns) try_again(now);
  const bool still = options.kill_after_ns > 0 && now - std::min(beat_ns, done_ns) > options.kill_after_ns;
  if (still || l->broken()) {
    log(LogLevel::kError, still ? format("gets nothing done for %.0f s: it is ended",
                                         static_cast<double>(now - std::min(beat_ns, done_ns)) * 1e-9)
                                : "has written what no worker writes: it is ended");
    ended_for = still ? WorkerEnd::kStuck : WorkerEnd::kBroken;
    kill(process.pid, SIGKILL);
  }
  return false;
}

// Why a worker ended itself, as it left that; it is not believed to be a text.
static std::string last_words(const RegionHead& head) {
  const size_t n = std::min<size_t>(head.last_words_bytes.load(std::memory_order_acquire), sizeof head.last_words);
  std::string out(head.last_words, n);
  for (char& c : out)
    if (c < ' ' || c > '~') c = '?';
  return out;
}

void Worker::State::mourn() {
  std::shared_ptr<Link> gone;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    gone = std::move(link);
    link = nullptr;
    counts.up = false;
    ++counts.deaths;
  }
  for (const RemotePtr& r : remotes()) r->detach();
  bool by_signal = true;
  std::string how;
  {
    const std::lock_guard<std::mutex> lock(control);
    how = bury(&process, &by_signal);
  }
  const std::string last = last_words(gone->region().head());
  if (!last.empty()) how = "lost its device";
  const WorkerEnd end = !last.empty() ? WorkerEnd::kDevice : by_signal ? ended_for : WorkerEnd::kStatus;
  ended_for = WorkerEnd::kSignal;
  const size_t lost =
      gone->end(refused("the worker process %s while it was at this request, which may be sent again", how.c_str()));
  {
    const std::lock_guard<std::mutex> lock(mutex);
    counts.lost_requests += lost;
    ++counts.ends[static_cast<size_t>(end)];
  }
  if (!last.empty()) how += " (" + last + ")";
  log(LogLevel::kError,
      how + " with " + counted(static_cast<int64_t>(lost), "request") + " under way: starting another");
}

// Another process, with the models of the one before.
void Worker::State::restore() {
  for (int64_t wait_ms = 0;; wait_ms = std::min<int64_t>(2 * wait_ms + 50, 5000)) {
    {
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait_for(lock, std::chrono::milliseconds(wait_ms), [&] { return stopping; });
      if (stopping) return;
    }
    for (const RemotePtr& r : remotes()) r->ring();
    const std::lock_guard<std::mutex> lock(control);
    if (const Status s = begin(); s.ok())
      break;
    else
      log(LogLevel::kError, s.error().text());
  }
  const int64_t start = now_ns();
  const std::vector<RemotePtr> all = remotes();
  for (const RemotePtr& r : all)
    if (!load_again(r, link)) return;  // it died over it: watch() sees that
  log(LogLevel::kInfo,
      "is back with " + counted(std::ssize(all), "model") + format(" after %.2f s", seconds_since(start)));
  changed.notify_all();
}

// False: the process that `to` leads to has ended.
bool Worker::State::load_again(const RemotePtr& remote, const std::shared_ptr<Link>& to) {
  if (remote->loads_that_killed >= kDeathsOverALoad) return true;
  const auto still_there = [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    return link == to;
  };
  Result<LoadedThere> there = internal_error("not asked");
  {
    const std::lock_guard<std::mutex> lock(control);
    if (!still_there()) return false;
    there = ask(remote->order(), remote->id(), [](const std::string&) {});
  }
  if (there.ok()) {
    remote->loads_that_killed = 0;
    remote->retry = false;
    if (!still_there()) return false;
    remote->attach(to, there->loaded.canary);
    return true;
  }
  const Error& why = there.error();
  if (why.kind == ErrorKind::kIo && why.message == "closed") {
    if (++remote->loads_that_killed >= kDeathsOverALoad) remote->set_fault("loading it ends the worker process");
    return false;
  }
  // A device or memory may come back.
  remote->retry = why.kind == ErrorKind::kMemory || why.kind == ErrorKind::kIo || why.kind == ErrorKind::kRefused;
  remote->set_fault("it could not be loaded again: " + why.text());
  return true;
}

// What could not be loaded when the process came back may be now. Not by the thread that watches: the others' models
// go on meanwhile, and a process that ends or stands still is seen.
void Worker::State::try_again(int64_t now) {
  tried_ns = now;
  const std::vector<RemotePtr> all = remotes();
  const auto waits = [](const RemotePtr& r) { return r->retry.load(); };
  if (retries || std::none_of(all.begin(), all.end(), waits)) return;
  if (retrying.joinable()) retrying.join();
  retries = true;
  retrying = std::thread([this, to = link] {
    for (const RemotePtr& r : remotes()) {
      if (!r->retry) continue;
      if (!load_again(r, to)) break;  // the next one is not to blame
      if (!r->retry) log(LogLevel::kInfo, "has loaded '" + r->order().name + "', which it could not when it came back");
    }
    retries = false;
  });
}

// REQUIRES: `control` is held, and there is a process. Errors: "closed" where it ends.
Result<LoadedThere> Worker::State::ask(const LoadOrder& order, uint32_t id,
                                       const std::function<void(const std::string&)>& say) {
  {
    const std::lock_guard<std::mutex> lock(send);
    PERI_TRY(send_frame(process.socket.get(), order_text(order, id)));
  }
  while (true) {
    PERI_ASSIGN(const Frame frame, receive_frame(process.socket.get()));
    if (const auto said = frame.json.get_string("say"); said.ok())
      say(std::string(*said));
    else if (const Json* error = frame.json.find("error"))
      return read_error(*error);
    else
      return read_loaded(frame);
  }
}

Result<Loaded> Worker::State::load(const LoadOrder& order, const std::function<void(const std::string&)>& say) {
  uint32_t id = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    while (models.count(id) > 0) ++id;
    if (id >= kMaxModels) return refused("a worker has at most %u models", kMaxModels);
    models[id] = {};  // the place is taken
  }
  std::shared_ptr<Link> asked;
  auto there = [&]() -> Result<LoadedThere> {
    while (true) {
      {
        std::unique_lock<std::mutex> lock(mutex);
        const auto up = [&] { return stopping || link; };
        if (!changed.wait_for(lock, std::chrono::seconds(kStartPatienceS), up) || stopping)
          return refused("there is no worker process to load it");
      }
      const std::lock_guard<std::mutex> lock(control);
      if (process.pid < 0) continue;
      {
        const std::lock_guard<std::mutex> now(mutex);
        asked = link;
      }
      return ask(order, id, say);
    }
  }();
  if (!there.ok()) {
    forget(id);
    if (there.error().kind == ErrorKind::kIo && there.error().message == "closed")
      return refused("the worker process ended over loading the model");
    return there.error();
  }
  LoadOrder again = order;
  again.known_sizes = there->loaded.batch_sizes;
  Loaded out = there->loaded;
  const auto remote = std::make_shared<RemoteServable>(id, std::move(again), std::move(*there), options.patience_ns,
                                                       [weak = weak_from_this(), id] {
                                                         if (const auto s = weak.lock()) s->forget(id);
                                                       });
  bool same = false;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    models[id] = remote;
    same = asked && link == asked;
  }
  if (!same) return refused("the worker process ended over loading the model");
  remote->attach(asked, out.canary);
  out.servable = remote;
  return out;
}

void Worker::State::forget(uint32_t id) {
  JsonWriter w;
  const std::string text = w.begin_object().field("unload", static_cast<int64_t>(id)).end_object().take();
  const std::lock_guard<std::mutex> order(send);
  const std::lock_guard<std::mutex> lock(mutex);
  models.erase(id);
  if (link) (void)send_frame(process.socket.get(), text).ok();
}

void Worker::State::end_process() {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
    if (counts.up) kill(static_cast<pid_t>(counts.pid), SIGKILL);  // what threads ask of it ends
  }
  changed.notify_all();
  if (thread.joinable()) thread.join();
  if (process.pid >= 0) kill(process.pid, SIGKILL);
  if (retrying.joinable()) retrying.join();
  if (process.pid >= 0) (void)bury(&process);
  std::shared_ptr<Link> gone;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    gone = std::move(link);
    link = nullptr;
  }
  if (gone) gone->end(refused("the server has ended"));
  for (const RemotePtr& r : remotes()) r->set_fault("the server has ended");  // nothing waits for another process
}

// Keeps the link that it watches, so that it ends to watch the same.
class Worker::Guest final : public LoopGuest {
 public:
  explicit Guest(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~Guest() override { Guest::awake(false); }
  void awake(bool on) override {
    if (!on) {
      if (!link_) return;
      link_->unwatch();
      link_->take_answers();  // what came while nobody was woken for it
      return link_.reset();
    }
    const std::lock_guard<std::mutex> lock(state_->mutex);
    link_ = state_->link;
    if (link_) link_->watch();
  }
  size_t take() override { return link_ ? link_->take_answers() : 0; }
  bool soon() const override { return link_ && link_->under_way() > 0; }

 private:
  const std::shared_ptr<State> state_;
  std::shared_ptr<Link> link_;
};

std::unique_ptr<LoopGuest> Worker::guest() { return std::make_unique<Guest>(state_); }

const std::string& Worker::name() const { return state_->options.name; }
int64_t Worker::gpu() const { return state_->options.gpu; }

Worker::Worker() = default;
Worker::~Worker() { state_->end_process(); }

Result<std::unique_ptr<Worker>> Worker::start(WorkerOptions options) {
  std::unique_ptr<Worker> out(new Worker());
  out->state_ = std::make_shared<State>(std::move(options));
  {
    const std::lock_guard<std::mutex> lock(out->state_->control);
    PERI_TRY(out->state_->begin());
  }
  out->state_->thread = std::thread([s = out->state_.get()] { s->watch(); });
  return out;
}

Result<Loaded> Worker::load(const LoadOrder& order, const std::function<void(const std::string&)>& say) {
  return state_->load(order, say);
}

void Worker::stop() { state_->end_process(); }

WorkerCounts Worker::counts() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  WorkerCounts out = state_->counts;
  if (state_->link) {
    out.memory_used = state_->link->used();
    out.under_way = state_->link->under_way();
    const RegionHead& head = state_->link->region().head();
    out.device = {head.device_total.load(std::memory_order_relaxed),
                  head.device_available.load(std::memory_order_relaxed)};
  }
  return out;
}

}  // namespace peri::serve
