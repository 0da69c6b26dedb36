// Link: the requests of one worker process, from its start to its end. Tensors are passed through a region that exists
// until the last answer in it is released.
#pragma once

#include <mutex>
#include <thread>
#include <unordered_map>

#include "runtime/servable.hpp"
#include "serve/worker/arena.hpp"
#include "serve/worker/region.hpp"

namespace peri::serve {

// Reported for each run when its answer arrives.
struct RunSeen {
  uint64_t key = 0;      // LinkRun::key
  int64_t took_ns = -1;  // run time in the worker; -1: unknown
  uint64_t bytes = 0;    // of the answer; 0: no answer
  bool withdrawn = false;
};

struct LinkRun {
  uint32_t model = 0;
  uint64_t key = 0;          // returned in RunSeen
  uint64_t reply_bytes = 0;  // expected size of the answer
  size_t outputs = 0;        // number of output tensors
  std::shared_ptr<runtime::Sink> sink;
  std::function<void(const RunSeen&)> seen;  // called before the sink receives the answer
};

class Link : public std::enable_shared_from_this<Link> {
 public:
  // Starts the thread that takes answers. REQUIRES: end() is called before the last pointer is released.
  static std::shared_ptr<Link> begin(std::shared_ptr<Region> region);
  ~Link();

  // Sends a run; its sink gets kMemory if there is no memory for it. Returns its ticket; 0: it was answered, or the
  // link has ended and `run` is unchanged.
  uint64_t run(std::span<const Tensor> inputs, LinkRun& run);
  // `how`: kCancel or kWithdraw.
  void cancel(uint32_t model, uint64_t ticket, EntryKind how);
  // Fails every request in progress with `why`, and stops taking answers. Returns the number of failed requests.
  size_t end(const Error& why);
  // Delivers available answers on this thread. Returns their number.
  size_t take_answers();
  // Between watch() and its counterpart, answers are left to the calling thread, unless it delays them by milliseconds.
  void watch() { region_->head().to_server.watch(); }
  void unwatch() { region_->head().to_server.unwatch(); }
  Region& region() { return *region_; }
  uint64_t used() const;       // bytes of blocks in use
  uint64_t under_way() const;  // runs in progress
  uint64_t answered() const { return answered_; }
  // Releases pages that were not used since the last call.
  void trim();
  // The other process wrote invalid data and must be ended.
  bool broken() const { return broken_; }

 private:
  explicit Link(std::shared_ptr<Region> region);
  struct Pending {
    LinkRun run;
    uint64_t offset = 0, reply = 0, reply_bytes = 0;
    uint64_t bytes = 0;  // of the request
  };
  struct Block;
  void receive();
  void take(const RingEntry& entry);
  void take_answer(const RingEntry& entry, Pending pending);
  bool grow(const RingEntry& entry, Pending* pending, Error* why);
  void give_back(uint64_t offset);

  const std::shared_ptr<Region> region_;
  std::mutex pop_mutex_;
  mutable std::mutex mutex_;  // protects all members below, and writes to the ring
  Arena arena_;
  std::unordered_map<uint64_t, Pending> pending_;
  uint64_t next_ticket_ = 1;
  bool ended_ = false;
  std::atomic<bool> stopping_{false}, broken_{false};
  std::atomic<uint64_t> answered_{0};
  std::thread thread_;
};

}  // namespace peri::serve
