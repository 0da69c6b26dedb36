// The server's state of a worker: the process, its link, the models to be loaded in it, and the threads that monitor
// it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/clock.hpp"
#include "serve/worker/process.hpp"
#include "serve/worker/remote.hpp"
#include "serve/worker/worker.hpp"

namespace peri::serve {

using RemotePtr = std::shared_ptr<RemoteServable>;

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
  std::mutex control;  // held during an order; protects `process`
  WorkerProcess process;
  std::mutex send;  // held while writing a frame
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<Link> link;  // null: no process
  std::map<uint32_t, std::weak_ptr<RemoteServable>> models;
  WorkerCounts counts;
  bool stopping = false;
  // Accessed by the watching thread only.
  uint64_t beats = 0, done = 0;
  int64_t beat_ns = 0, done_ns = 0, trim_ns = 0, tried_ns = 0;
  WorkerEnd ended_for = WorkerEnd::kSignal;
  std::thread thread;
  std::thread retrying;  // loads models again whose load failed; may take long
  std::atomic<bool> retries{false};
};

}  // namespace peri::serve
