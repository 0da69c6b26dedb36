// Link: the requests of one worker process, from its start to its end. Their tensors are passed through a region that
// exists until the last response in it is released.
#pragma once

#include <mutex>
#include <thread>
#include <unordered_map>

#include "runtime/servable.hpp"
#include "serve/worker/arena.hpp"
#include "serve/worker/region.hpp"

namespace peri::serve {

// What a link tells of a run when its answer is there.
struct RunSeen {
  uint64_t key = 0;      // as it was given
  int64_t took_ns = -1;  // in the worker; -1: not known
  uint64_t bytes = 0;    // of the answer; 0: there is none
};

struct LinkRun {
  uint32_t model = 0;
  uint64_t key = 0;          // handed back in RunSeen
  uint64_t reply_bytes = 0;  // expected
  size_t outputs = 0;        // tensors of the answer
  std::shared_ptr<runtime::Sink> sink;
  std::function<void(const RunSeen&)> seen;  // called before the sink gets the answer
};

class Link : public std::enable_shared_from_this<Link> {
 public:
  // Begins to take answers. REQUIRES: end() before the last pointer goes.
  static std::shared_ptr<Link> begin(std::shared_ptr<Region> region);
  ~Link();

  // Sends a run; the sink gets kMemory if there is no room. Its ticket; 0: it was answered, or the link has ended and
  // `run` is as it was.
  uint64_t run(std::span<const Tensor> inputs, LinkRun& run);
  void cancel(uint32_t model, uint64_t ticket);
  // All that is under way gets `why`, and nothing is taken any more. How many.
  size_t end(const Error& why);
  // Takes what answers there are, on this thread. How many.
  size_t take_answers();
  // Between these, answers that come are left to this thread, as long as it is not away for milliseconds.
  void watch() { region_->head().to_server.watch(); }
  void unwatch() { region_->head().to_server.unwatch(); }
  Region& region() { return *region_; }
  uint64_t used() const;       // bytes of blocks
  uint64_t under_way() const;  // runs
  uint64_t answered() const { return answered_; }
  // Gives back the pages that have not been used since the last call.
  void trim();
  // The other side wrote what it never should: it has to be ended.
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
  mutable std::mutex mutex_;  // of all below, and of pushing
  Arena arena_;
  std::unordered_map<uint64_t, Pending> pending_;
  uint64_t next_ticket_ = 1;
  bool ended_ = false;
  std::atomic<bool> stopping_{false}, broken_{false};
  std::atomic<uint64_t> answered_{0};
  std::thread thread_;
};

}  // namespace peri::serve
