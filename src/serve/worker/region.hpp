// Region: memory that the server shares with one worker process: two rings of small entries, one for each direction,
// counts that only grow, and blocks for tensors. A side that sleeps is woken by a futex, one that is awake by nothing.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "base/file.hpp"

namespace peri::serve {

enum class EntryKind : uint32_t {
  kRun = 1,  // to the worker: run a model on the tensors at `offset`; the answer has room at `reply_offset`
  kCancel,   // the request of this ticket is of no use any more; in a ring of its own, as runs may fill the other's
             // readers
  kFetch,    // the answer that had no room: here is some
  kAnswer,   // from the worker: the tensors are where there was room for them, `bytes` of them
  kError,    // a block of an error is there, or where there is no room for it nothing (bytes 0)
  kNeeds,    // the answer is kept and needs `bytes`
};

struct RingEntry {
  EntryKind kind = EntryKind::kRun;
  uint32_t model = 0;
  uint64_t ticket = 0;
  uint64_t offset = 0, bytes = 0;
  uint64_t reply_offset = 0, reply_bytes = 0;
};

constexpr uint32_t kRingEntries = 4096;  // more than requests may be under way
constexpr uint32_t kMaxModels = 1024;    // of a worker, in its life

// A queue of entries between two processes, one of which writes and one of which reads, each side under a lock of its
// own. Its memory is zero at first.
class Ring {
 public:
  // False: it is full.
  bool push(const RingEntry& entry);
  // Nothing there: false. A ring whose other side wrote nonsense is `broken` from then on.
  bool pop(RingEntry* out, bool* broken);
  // Sleeps until something may be there, at most `ms`; spurious returns are possible.
  void wait(int ms);
  // While somebody watches, who sleeps is not woken. Who ends to watch looks once more.
  void watch() { watchers_.fetch_add(1, std::memory_order_seq_cst); }
  void unwatch() { watchers_.fetch_sub(1, std::memory_order_seq_cst); }
  bool empty() const { return tail_.load(std::memory_order_seq_cst) == head_.load(std::memory_order_relaxed); }
  // Wakes all that sleep.
  void wake_all();

 private:
  alignas(64) std::atomic<uint64_t> head_;  // taken so far
  alignas(64) std::atomic<uint64_t> tail_;  // put so far
  alignas(64) std::atomic<uint32_t> bell_;
  std::atomic<uint32_t> sleepers_, watchers_;
  alignas(64) RingEntry entries_[kRingEntries];
};

struct RegionHead {
  uint64_t magic;
  Ring to_worker, to_server;
  Ring cancels;                                         // to the worker, looked at with each beat
  std::atomic<int64_t> device_total, device_available;  // memory of the worker's device; 0: it has none of its own
  std::atomic<uint32_t> last_words_bytes;  // once the worker ends itself over its device: of the text that says why
  char last_words[1000];
  alignas(64) std::atomic<uint64_t> beats;              // of the worker's clock: stands still where it does
  alignas(64) std::atomic<uint64_t> steps[kMaxModels];  // done by each model
};

class Region {
 public:
  // Memory for `bytes` of blocks, all zero, of which only what is used takes memory.
  static Result<std::shared_ptr<Region>> create(uint64_t bytes);
  // The worker's end: takes the descriptor. Errors: it is no region of this version.
  static Result<std::shared_ptr<Region>> open(Fd fd);
  ~Region();

  RegionHead& head() { return *reinterpret_cast<RegionHead*>(data_); }
  int fd() const { return fd_.get(); }
  uint64_t begin() const;  // of blocks
  uint64_t end() const { return size_; }
  // Empty: it does not lie within the blocks.
  std::span<std::byte> block(uint64_t offset, uint64_t bytes);
  // Gives the pages of [first, second) back.
  void drop(uint64_t first, uint64_t second);

 private:
  Region() = default;
  Status map(uint64_t bytes);
  Fd fd_;
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace peri::serve
