// Float buffers that end (or begin) exactly at an inaccessible page, so that an access one element too far crashes.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/result.hpp"

namespace peri::kernels::cpu {

class Guarded {
 public:
  enum class Side { kEnd, kBegin };
  explicit Guarded(int64_t floats, Side side = Side::kEnd) : size_(floats) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = static_cast<size_t>(floats) * sizeof(float);
    const size_t body = (bytes + page - 1) / page * page;
    mapped_ = body + 2 * page;
    base_ = static_cast<char*>(mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    PERI_CHECK(base_ != MAP_FAILED);
    PERI_CHECK(body == 0 || mprotect(base_ + page, body, PROT_READ | PROT_WRITE) == 0);
    data_ = reinterpret_cast<float*>(base_ + page + (side == Side::kEnd ? body - bytes : 0));
  }
  ~Guarded() { munmap(base_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  float* data() const { return data_; }
  int64_t size() const { return size_; }
  float& operator[](int64_t i) const { return data_[i]; }
  float* begin() const { return data_; }
  float* end() const { return data_ + size_; }
  void fill(float value) const {
    for (float& x : *this) x = value;
  }
  // Seeded values in [-scale, scale).
  void randomise(uint64_t seed, float scale = 1) const {
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (float& x : *this) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      x = scale * (static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-31f);
    }
  }

 private:
  int64_t size_;
  size_t mapped_ = 0;
  char* base_ = nullptr;
  float* data_ = nullptr;
};

}  // namespace peri::kernels::cpu
