// Threads that run models read the ring themselves, without a transfer between threads. One more thread writes
// heartbeats and the progress of each model.
#include "serve/worker/host.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "base/clock.hpp"
#include "base/fault.hpp"
#include "serve/worker/tensor_block.hpp"
#include "serve/worker/wire.hpp"

namespace peri::serve {

namespace {

constexpr int kBeatMs = 20, kDeviceLookMs = 500;
constexpr int64_t kLingerNs = 20000;  // how long a thread polls for the next request before it sleeps
constexpr int kMaxThreads = 1024;

struct Hosted {
  std::shared_ptr<runtime::Servable> servable;
  uint32_t id = 0;
  int busy = 0;
  std::deque<RingEntry> waiting;  // for a slot
};
using HostedPtr = std::shared_ptr<Hosted>;

class Host {
 public:
  Host(std::shared_ptr<Region> region, Fd socket, Loader loader, std::function<void(int)> end,
       std::function<std::optional<Error>()> lost)
      : region_(std::move(region)),
        socket_(std::move(socket)),
        loader_(std::move(loader)),
        end_(std::move(end)),
        lost_(std::move(lost)) {}

  [[noreturn]] void serve() {
    std::thread([this] { beat(); }).detach();
    std::thread([this] { look_at_device(); }).detach();
    while (true) {
      auto frame = receive_frame(socket_.get());
      if (!frame.ok()) end_(0);
      obey(*frame);
    }
  }

 private:
  class Reply;
  void beat();
  void look_at_device();
  void end_if_lost();
  void obey(const Frame& frame);
  void load(const Json& order);
  void work();
  bool next(RingEntry* out);
  void take(const RingEntry& entry);
  void cancel(const RingEntry& entry);
  void sort_waiting();
  bool any_due();
  void run(const HostedPtr& model, const RingEntry& entry);
  void finished(const HostedPtr& model, const RingEntry& entry, Result<std::vector<Tensor>> outputs, int64_t took_ns);
  void give(const RingEntry& entry, const std::vector<Tensor>& outputs, int64_t took_ns);
  void give_error(const RingEntry& entry, const Error& error);
  void push(const RingEntry& entry);

  const std::shared_ptr<Region> region_;
  const Fd socket_;
  const Loader loader_;
  const std::function<void(int)> end_;
  const std::function<std::optional<Error>()> lost_;
  std::atomic<bool> leaving_{false};
  std::mutex mutex_;  // protects models and waiting requests
  std::map<uint32_t, HostedPtr> models_;
  std::deque<std::pair<HostedPtr, RingEntry>> due_;  // have a slot
  std::map<uint64_t, std::vector<Tensor>> kept_;     // answers for which the block was too small
  int threads_ = 0, slots_ = 0;
  std::mutex pop_mutex_, push_mutex_;
};

void Host::beat() {
  pollfd gone{socket_.get(), POLLRDHUP, 0};
  while (true) {
    region_->head().cancels.wait(kBeatMs);
    if (poll(&gone, 1, 0) > 0 && (gone.revents & (POLLRDHUP | POLLHUP | POLLERR))) end_(0);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& [id, model] : models_)
        region_->head().steps[id].store(model->servable->progress(), std::memory_order_relaxed);
    }
    RingEntry entry;
    for (bool broken = false; region_->head().cancels.pop(&entry, &broken);) cancel(entry);
    if (any_due()) region_->head().to_worker.wake_all();  // a thread may have gone to sleep as it was queued
    region_->head().beats.fetch_add(1, std::memory_order_relaxed);
  }
}

// Memory of the first model's device. Not called by the heartbeat thread, since a driver may block.
void Host::look_at_device() {
  while (true) {
    std::map<uint32_t, HostedPtr> models;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      models = models_;
    }
    device::MemoryInfo memory;
    for (const auto& [id, model] : models)
      if (memory.total_bytes == 0) memory = model->servable->device_memory();
    models.clear();
    end_if_lost();
    region_->head().device_available.store(memory.available_bytes, std::memory_order_relaxed);
    region_->head().device_total.store(memory.total_bytes, std::memory_order_relaxed);
    std::this_thread::sleep_for(std::chrono::milliseconds(kDeviceLookMs));
  }
}

// No more answers are sent: the server fails all requests in progress, as after a crash.
void Host::end_if_lost() {
  const std::optional<Error> why = lost_();
  if (!why) return;
  while (leaving_.exchange(true)) pause();  // another thread is ending the process
  const std::string text = why->message + (why->found.empty() ? "" : ", " + why->found);
  RegionHead& head = region_->head();
  const size_t n = std::min(text.size(), sizeof head.last_words);
  std::memcpy(head.last_words, text.data(), n);
  head.last_words_bytes.store(static_cast<uint32_t>(n), std::memory_order_release);
  end_(kLostDeviceStatus);
}

void Host::obey(const Frame& frame) {
  if (const Json* order = frame.json.find("load")) return load(*order);
  const auto id = frame.json.get_int("unload");
  if (!id.ok()) return;
  HostedPtr gone;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto it = models_.find(static_cast<uint32_t>(*id)); it != models_.end()) {
    gone = std::move(it->second);
    slots_ -= gone->servable->slots();
    models_.erase(it);
  }
}

void Host::load(const Json& json) {
  uint32_t id = 0;
  const auto tell = [&](const std::string& progress) {
    JsonWriter w;
    (void)send_frame(socket_.get(), w.begin_object().field("say", progress).end_object().take()).ok();
  };
  auto loaded = contained([&]() -> Result<Loaded> {
    PERI_ASSIGN(const LoadOrder order, read_order(json, &id));
    return loader_(order, tell);
  });
  if (!loaded.ok() || id >= kMaxModels) {
    end_if_lost();
    JsonWriter w;
    w.begin_object();
    add_error(loaded.ok() ? internal_error("model %u of a worker", id) : loaded.error(), &w);
    (void)send_frame(socket_.get(), w.end_object().take()).ok();
    return;
  }
  auto model = std::make_shared<Hosted>();
  model->id = id;
  model->servable = loaded->servable;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    models_[id] = model;
    slots_ += model->servable->slots();
    for (; threads_ < std::min(slots_, kMaxThreads); ++threads_) std::thread([this] { work(); }).detach();
  }
  std::vector<Tensor> canary = loaded->canary.inputs;
  canary.insert(canary.end(), loaded->canary.outputs.begin(), loaded->canary.outputs.end());
  for (const auto& [name, section] : loaded->sections) {
    auto copy = Tensor::strings({1}, {section});
    if (copy.ok()) canary.push_back(std::move(*copy));
  }
  std::vector<std::byte> bytes(canary.empty() ? 0 : block_bytes(canary));
  if (!canary.empty()) write_block(canary, bytes);
  (void)send_frame(socket_.get(), loaded_text(*loaded), bytes).ok();
}

// Requests that already have a slot go first.
bool Host::next(RingEntry* out) {
  bool broken = false, found = false;
  {
    const std::lock_guard<std::mutex> lock(pop_mutex_);
    found = region_->head().to_worker.pop(out, &broken);
  }
  if (broken) end_(1);
  return found;
}

void Host::work() {
  Ring& ring = region_->head().to_worker;
  int64_t last_ns = 0;  // end of this thread's last run
  while (true) {
    std::optional<std::pair<HostedPtr, RingEntry>> due;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!due_.empty()) {
        due = std::move(due_.front());
        due_.pop_front();
      }
    }
    RingEntry entry;
    if (due || next(&entry)) {
      due ? run(due->first, due->second) : take(entry);
      last_ns = now_ns();
    } else if (now_ns() - last_ns < kLingerNs) {
      std::this_thread::yield();
    } else {
      ring.wait(1000);
    }
  }
}

void Host::take(const RingEntry& entry) {
  HostedPtr model;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (entry.kind == EntryKind::kFetch) {
      const auto it = kept_.find(entry.ticket);
      if (it == kept_.end()) return;
      const std::vector<Tensor> outputs = std::move(it->second);
      kept_.erase(it);
      lock.unlock();
      return give(entry, outputs, 0);
    }
    const auto it = models_.find(entry.model);
    if (it != models_.end()) model = it->second;
    if (model && model->busy >= model->servable->slots()) {
      model->waiting.push_back(entry);
      return;
    }
    if (model) ++model->busy;
  }
  if (!model) return give_error(entry, internal_error("the worker has no such model"));
  run(model, entry);
}

// Ends, or with kWithdraw takes back, a request that waits; else cancels a run.
void Host::cancel(const RingEntry& entry) {
  const bool withdraws = entry.kind == EntryKind::kWithdraw;
  sort_waiting();
  std::unique_lock<std::mutex> lock(mutex_);
  const auto it = models_.find(entry.model);
  if ((!withdraws && kept_.erase(entry.ticket) > 0) || it == models_.end()) return;
  const HostedPtr model = it->second;
  const auto waits = std::ranges::find(model->waiting, entry.ticket, &RingEntry::ticket);
  if (waits != model->waiting.end()) {
    RingEntry dropped = *waits;
    model->waiting.erase(waits);
    lock.unlock();
    if (!withdraws) return give_error(dropped, Error(ErrorKind::kCancelled, "the client cancelled the request"));
    dropped.kind = EntryKind::kWithdraw;
    dropped.bytes = 0;
    return push(dropped);
  }
  if (!withdraws) model->servable->cancel(entry.ticket);
}

// Where every thread is at a run, nobody reads what follows in the ring: here it is, in its order.
void Host::sort_waiting() {
  RingEntry entry;
  bool due = false;
  while (next(&entry)) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto it = models_.find(entry.model);
      if (entry.kind == EntryKind::kRun && it != models_.end()) {
        Hosted& model = *it->second;
        const bool free = model.busy < model.servable->slots();
        if (free) due_.emplace_back(it->second, entry);
        if (!free) model.waiting.push_back(entry);
        model.busy += free;
        due = due || free;
        continue;
      }
    }
    if (entry.kind == EntryKind::kRun)
      give_error(entry, internal_error("the worker has no such model"));
    else
      take(entry);
  }
  if (due) region_->head().to_worker.wake_all();
}

bool Host::any_due() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !due_.empty();
}

// The answer of one run.
class Host::Reply final : public runtime::Sink {
 public:
  Reply(Host* host, HostedPtr model, const RingEntry& entry)
      : host_(host), model_(std::move(model)), entry_(entry), began_ns_(now_ns()) {}
  void answer(Result<std::vector<Tensor>> outputs, bool last) override {
    if (last) host_->finished(model_, entry_, std::move(outputs), now_ns() - began_ns_);
  }

 private:
  Host* host_;
  const HostedPtr model_;
  const RingEntry entry_;
  const int64_t began_ns_;
};

void Host::run(const HostedPtr& model, const RingEntry& entry) {
  auto inputs = read_block(region_->block(entry.offset, entry.bytes), region_);
  if (!inputs.ok()) return finished(model, entry, inputs.error(), 0);
  model->servable->submit(entry.ticket, std::move(*inputs), std::make_shared<Reply>(this, model, entry));
}

void Host::finished(const HostedPtr& model, const RingEntry& entry, Result<std::vector<Tensor>> outputs,
                    int64_t took_ns) {
  end_if_lost();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (model->waiting.empty()) {
      --model->busy;
    } else {
      due_.emplace_back(model, model->waiting.front());
      model->waiting.pop_front();
    }
  }
  if (outputs.ok())
    give(entry, *outputs, took_ns);
  else
    give_error(entry, outputs.error());
}

void Host::give(const RingEntry& entry, const std::vector<Tensor>& outputs, int64_t took_ns) {
  RingEntry out = entry;
  out.bytes = block_bytes(outputs);
  out.reply_bytes = static_cast<uint64_t>(std::max<int64_t>(took_ns, 0));
  if (out.bytes > entry.reply_bytes) {
    out.kind = EntryKind::kNeeds;
    const std::lock_guard<std::mutex> lock(mutex_);
    kept_[entry.ticket] = outputs;
  } else {
    out.kind = EntryKind::kAnswer;
    write_block(outputs, region_->block(entry.reply_offset, out.bytes));
  }
  push(out);
}

void Host::give_error(const RingEntry& entry, const Error& error) {
  JsonWriter w;
  w.begin_object();
  add_error(error, &w);
  std::string text = w.end_object().take();
  if (text.size() > entry.reply_bytes) {
    JsonWriter brief;
    brief.begin_object();
    add_error(Error(error.kind, error.message.substr(0, 200)), &brief);
    text = brief.end_object().take();
  }
  RingEntry out = entry;
  out.kind = EntryKind::kError;
  out.bytes = text.size() <= entry.reply_bytes ? text.size() : 0;
  if (out.bytes > 0) std::memcpy(region_->block(entry.reply_offset, out.bytes).data(), text.data(), out.bytes);
  push(out);
}

// Cannot fail: there are no more requests in progress than entries in the ring.
void Host::push(const RingEntry& entry) {
  const std::lock_guard<std::mutex> lock(push_mutex_);
  while (!region_->head().to_server.push(entry)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}
}  // namespace

Status serve_as_worker(Fd socket, Fd memory, Loader loader, std::function<void(int)> end,
                       std::function<std::optional<Error>()> lost) {
  PERI_ASSIGN(auto region, Region::open(std::move(memory)));
  JsonWriter w;
  PERI_TRY(send_frame(socket.get(), w.begin_object().field("ready", true).end_object().take()));
  Host host(std::move(region), std::move(socket), std::move(loader), std::move(end), std::move(lost));
  host.serve();
}

}  // namespace peri::serve
