// Poisoned bytes that end exactly at an inaccessible page: any element type, movable, for kernels of many dtypes.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace peri::tests {

class GuardedBytes {
 public:
  explicit GuardedBytes(int64_t bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t body = (static_cast<size_t>(bytes) + page - 1) / page * page;
    size_ = body + page;
    map_ = static_cast<char*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(map_ + body, page, PROT_NONE);
    data_ = map_ + body - bytes;
    std::memset(data_, 0xee, static_cast<size_t>(bytes));
  }
  ~GuardedBytes() {
    if (map_ != nullptr) munmap(map_, size_);
  }
  GuardedBytes(GuardedBytes&& other) noexcept
      : map_(std::exchange(other.map_, nullptr)), data_(other.data_), size_(other.size_) {}
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  template <class T = float>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  char* map_;
  char* data_;
  size_t size_;
};

}  // namespace peri::tests
