// Region: memory shared by the server and one worker process: rings of small entries for both directions, counters that
// only increase, and blocks for tensors. Sleeping readers are woken by a futex; polling ones need no system call.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "base/file.hpp"

namespace peri::serve {

enum class EntryKind : uint32_t {
  kRun = 1,   // to the worker: run a model on the tensors at `offset`; the answer's block is at `reply_offset`
  kCancel,    // the request of this ticket is no longer needed; uses its own ring, since runs may fill the other
  kFetch,     // a larger block for an answer that did not fit
  kAnswer,    // from the worker: the tensors are in the block, with `bytes` bytes
  kError,     // an error is in the block; 0 bytes if it had no space
  kNeeds,     // the answer is kept, and needs `bytes`
  kWithdraw,  // to the worker, in the ring of cancels: answer with the same kind if the request has not begun
};

struct RingEntry {
  EntryKind kind = EntryKind::kRun;
  uint32_t model = 0;
  uint64_t ticket = 0;
  uint64_t offset = 0, bytes = 0;
  uint64_t reply_offset = 0, reply_bytes = 0;
};

constexpr uint32_t kRingEntries = 4096;  // above the limit of requests in progress
constexpr uint32_t kMaxModels = 1024;    // per worker, in its lifetime

// A queue of entries between two processes, one writing and one reading, each side under its own lock. Zero-initialised
// memory is an empty ring.
class Ring {
 public:
  // False: the ring is full.
  bool push(const RingEntry& entry);
  // False: the ring is empty. If the other side wrote invalid positions, `broken` is set.
  bool pop(RingEntry* out, bool* broken);
  // Sleeps until an entry may be present, at most `ms`; may return early.
  void wait(int ms);
  // While a thread watches, sleeping threads are not woken. After the watch the thread must check once more.
  void watch() { watchers_.fetch_add(1, std::memory_order_seq_cst); }
  void unwatch() { watchers_.fetch_sub(1, std::memory_order_seq_cst); }
  bool empty() const { return tail_.load(std::memory_order_seq_cst) == head_.load(std::memory_order_relaxed); }
  // Wakes all sleeping threads.
  void wake_all();

 private:
  alignas(64) std::atomic<uint64_t> head_;  // entries read
  alignas(64) std::atomic<uint64_t> tail_;  // entries written
  alignas(64) std::atomic<uint32_t> bell_;
  std::atomic<uint32_t> sleepers_, watchers_;
  alignas(64) RingEntry entries_[kRingEntries];
};

struct RegionHead {
  uint64_t magic;
  Ring to_worker, to_server;
  Ring cancels;                                         // to the worker, which reads them at once
  std::atomic<int64_t> device_total, device_available;  // of the worker's device; 0: no memory of its own
  std::atomic<uint32_t> last_words_bytes;  // length of the error text, set when the worker ends because of its device
  char last_words[1000];
  alignas(64) std::atomic<uint64_t> beats;              // increases while the worker is alive
  alignas(64) std::atomic<uint64_t> steps[kMaxModels];  // progress of each model
};

class Region {
 public:
  // Reserves `bytes` for blocks, initially zero; only used pages take memory. Errors: kIo.
  static Result<std::shared_ptr<Region>> create(uint64_t bytes);
  // Maps the region in the worker; takes the descriptor. Errors: kInvalid: not a region of this version; kIo.
  static Result<std::shared_ptr<Region>> open(Fd fd);
  ~Region();

  RegionHead& head() { return *reinterpret_cast<RegionHead*>(data_); }
  int fd() const { return fd_.get(); }
  uint64_t begin() const;  // offset of the first block
  uint64_t end() const { return size_; }
  // Empty: not within the blocks.
  std::span<std::byte> block(uint64_t offset, uint64_t bytes);
  // Releases the pages of [first, second).
  void drop(uint64_t first, uint64_t second);

 private:
  Region() = default;
  Status map(uint64_t bytes);
  Fd fd_;
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace peri::serve
