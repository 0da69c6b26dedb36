// Positions only increase; an entry is written before the position after it, and read before its place is released.
#include "serve/worker/region.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace peri::serve {

namespace {
constexpr uint64_t kMagic = 0x3152455653495245ull;

long futex(std::atomic<uint32_t>* word, int op, uint32_t value, const timespec* timeout) {
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint64_t>::is_always_lock_free);
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), op, value, timeout, nullptr, 0);
}
}  // namespace

bool Ring::push(const RingEntry& entry) {
  const uint64_t tail = tail_.load(std::memory_order_relaxed);
  if (tail - head_.load(std::memory_order_acquire) >= kRingEntries) return false;
  entries_[tail % kRingEntries] = entry;
  tail_.store(tail + 1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0 && watchers_.load(std::memory_order_seq_cst) == 0) {
    bell_.fetch_add(1, std::memory_order_seq_cst);
    futex(&bell_, FUTEX_WAKE, 1, nullptr);
  }
  return true;
}

bool Ring::pop(RingEntry* out, bool* broken) {
  const uint64_t head = head_.load(std::memory_order_relaxed);
  const uint64_t there = tail_.load(std::memory_order_acquire) - head;
  if (there == 0) return false;
  if (there > kRingEntries) {
    *broken = true;
    return false;
  }
  *out = entries_[head % kRingEntries];
  head_.store(head + 1, std::memory_order_release);
  return true;
}

void Ring::wait(int ms) {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t bell = bell_.load(std::memory_order_seq_cst);
  if (tail_.load(std::memory_order_seq_cst) == head_.load(std::memory_order_seq_cst)) {
    const timespec time{ms / 1000, ms % 1000 * 1000000L};
    futex(&bell_, FUTEX_WAIT, bell, &time);
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

void Ring::wake_all() {
  bell_.fetch_add(1, std::memory_order_seq_cst);
  futex(&bell_, FUTEX_WAKE, INT32_MAX, nullptr);
}

uint64_t Region::begin() const { return (sizeof(RegionHead) + 4095) / 4096 * 4096; }

Status Region::map(uint64_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_.get(), 0);
  if (at == MAP_FAILED) return os_error("map", "memory shared with the worker");
  data_ = static_cast<std::byte*>(at);
  size_ = bytes;
  return Ok{};
}

Result<std::shared_ptr<Region>> Region::create(uint64_t bytes) {
  std::shared_ptr<Region> out(new Region());
  out->fd_ = Fd(memfd_create("peri-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const uint64_t size = out->begin() + (bytes + 4095) / 4096 * 4096;
  if (!out->fd_.valid() || ftruncate(out->fd_.get(), static_cast<off_t>(size)) != 0)
    return os_error("make", "memory shared with the worker");
  (void)fcntl(out->fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  PERI_TRY(out->map(size));
  out->head().magic = kMagic;
  return out;
}

Result<std::shared_ptr<Region>> Region::open(Fd fd) {
  std::shared_ptr<Region> out(new Region());
  out->fd_ = std::move(fd);
  struct stat status = {};
  if (fstat(out->fd_.get(), &status) != 0) return os_error("open", "memory shared with the server");
  const uint64_t size = static_cast<uint64_t>(status.st_size);
  if (size < out->begin()) return invalid("the memory shared with the server is too small");
  PERI_TRY(out->map(size));
  if (out->head().magic != kMagic) return invalid("the memory shared with the server is of another version");
  return out;
}

Region::~Region() {
  if (data_) munmap(data_, size_);
}

std::span<std::byte> Region::block(uint64_t offset, uint64_t bytes) {
  if (offset < begin() || offset > size_ || bytes > size_ - offset || offset % 64 != 0) return {};
  return {data_ + offset, bytes};
}

void Region::drop(uint64_t first, uint64_t second) {
  first = (first + 4095) / 4096 * 4096;
  second = second / 4096 * 4096;
  if (second > first) (void)madvise(data_ + first, second - first, MADV_REMOVE);
}

}  // namespace peri::serve
