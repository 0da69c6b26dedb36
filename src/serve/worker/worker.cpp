// Orders are sent one at a time; a closed socket fails the order in progress.
#include "serve/worker/worker.hpp"

#include <signal.h>
#include <sys/socket.h>

#include <algorithm>

#include "base/plural.hpp"
#include "serve/worker/worker_state.hpp"

namespace peri::serve {

namespace {
constexpr int kStartPatienceS = 60;
}  // namespace

// Starts a process and its link. REQUIRES: `control` is held.
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

// REQUIRES: `control` is held, and a process is running. Errors: kIo "closed": it ended.
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
    models[id] = {};  // reserves the index
  }
  const auto without = [&](const char* message) {
    const std::lock_guard<std::mutex> lock(mutex);
    return stopping ? Error(ErrorKind::kCancelled, "the server ends") : refused("%s", message);
  };
  constexpr const char* kEnded = "the worker process ended over loading the model";
  std::shared_ptr<Link> asked;
  auto there = [&]() -> Result<LoadedThere> {
    while (true) {
      const bool came = [&] {
        std::unique_lock<std::mutex> lock(mutex);
        const auto up = [&] { return stopping || link; };
        return changed.wait_for(lock, std::chrono::seconds(kStartPatienceS), up) && !stopping;
      }();
      if (!came) return without("there is no worker process to load it");
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
    if (there.error().kind == ErrorKind::kIo && there.error().message == "closed") return without(kEnded);
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
  if (!same) return without(kEnded);
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
    if (counts.up) kill(static_cast<pid_t>(counts.pid), SIGKILL);  // ends pending orders
  }
  changed.notify_all();
  if (thread.joinable()) thread.join();
  if (process.pid >= 0) kill(process.pid, SIGKILL);
  if (retrying.joinable()) retrying.join();
  std::shared_ptr<Link> gone;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    gone = std::move(link);
    link = nullptr;  // from now on forget() does not use the socket
    counts.up = false;
  }
  {
    const std::lock_guard<std::mutex> lock(control);  // a load in progress reads from the socket
    if (process.pid >= 0) (void)bury(&process);
  }
  if (gone) gone->end(refused("the server has ended"));
  for (const RemotePtr& r : remotes()) r->set_fault("the server has ended");  // no request waits for another process
}

// Keeps the watched link, so that the watch ends on the same link.
class Worker::Guest final : public LoopGuest {
 public:
  explicit Guest(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~Guest() override { Guest::awake(false); }
  void awake(bool on) override {
    if (!on) {
      if (!link_) return;
      link_->unwatch();
      link_->take_answers();  // answers that arrived without a wake-up
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
