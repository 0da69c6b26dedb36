// A process that ended is replaced by another with the same models; one without progress is killed.
#include <poll.h>
#include <signal.h>

#include <algorithm>

#include "base/plural.hpp"
#include "serve/worker/worker_state.hpp"

namespace peri::serve {

namespace {
constexpr int kLookMs = 50;
constexpr int64_t kTrimNs = 1'000'000'000;
constexpr int kDeathsOverALoad = 2;  // afterwards the model is not loaded again
}  // namespace

void Worker::State::watch() {
  const auto over = [this] {
    const std::lock_guard<std::mutex> lock(mutex);
    return stopping;
  };
  while (!over()) {
    if (!look()) continue;
    if (over()) return;  // end_process() reaps the processes that it ends
    mourn();
    restore();
  }
}

// Whether the process has ended. A process without progress is killed.
bool Worker::State::look() {
  pollfd ended{process.ended.get(), POLLIN, 0};
  if (poll(&ended, 1, kLookMs) > 0) return true;
  const int64_t now = now_ns();
  const std::shared_ptr<Link> l = link;  // only this thread writes it
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

// The error text that a worker left; it is untrusted.
static std::string last_words(const RegionHead& head) {
  const size_t n = std::min<size_t>(head.last_words_bytes.load(std::memory_order_acquire), sizeof head.last_words);
  std::string out(head.last_words, n);
  for (char& c : out)
    if (c < ' ' || c > '~') c = '?';
  return out;
}

void Worker::State::mourn() {
  std::shared_ptr<Link> gone;
  bool meant = false;  // the server ends as a whole
  {
    const std::lock_guard<std::mutex> lock(mutex);
    meant = stopping;
    gone = std::move(link);
    link = nullptr;
    counts.up = false;
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
  if (meant) return;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    ++counts.deaths;
    counts.lost_requests += lost;
    ++counts.ends[static_cast<size_t>(end)];
  }
  if (!last.empty()) how += " (" + last + ")";
  log(LogLevel::kError,
      how + " with " + counted(static_cast<int64_t>(lost), "request") + " under way: starting another");
}

// Starts another process and loads the same models.
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
    if (!load_again(r, link)) return;  // the process died while loading: watch() handles that
  log(LogLevel::kInfo,
      "is back with " + counted(std::ssize(all), "model") + format(" after %.2f s", seconds_since(start)));
  changed.notify_all();
}

// False: the process of `to` has ended.
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
  // A device or memory may become available again.
  remote->retry = why.kind == ErrorKind::kMemory || why.kind == ErrorKind::kIo || why.kind == ErrorKind::kRefused;
  remote->set_fault("it could not be loaded again: " + why.text());
  return true;
}

// Retries loads that failed when the process restarted. Runs on its own thread: other models continue, and the watching
// thread still detects a process that ends or makes no progress.
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
      if (!load_again(r, to)) break;  // the next model is not the cause
      if (!r->retry) log(LogLevel::kInfo, "has loaded '" + r->order().name + "', which it could not when it came back");
    }
    retries = false;
  });
}

}  // namespace peri::serve
