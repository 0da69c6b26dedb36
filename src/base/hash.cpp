// xxh3 behind Hasher; the library's header stays in this file.
#include "base/hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>

namespace peri {

struct alignas(64) Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher(uint64_t seed) : state_(std::make_unique<State>()) { XXH3_64bits_reset_withSeed(&state_->xxh, seed); }
Hasher::~Hasher() = default;

Hasher& Hasher::add_bytes(const void* data, size_t size) {
  if (size) XXH3_64bits_update(&state_->xxh, data, size);
  return *this;
}
uint64_t Hasher::digest() const { return XXH3_64bits_digest(&state_->xxh); }

uint64_t hash_bytes(const void* data, size_t size, uint64_t seed) { return XXH3_64bits_withSeed(data, size, seed); }

std::string hex64(uint64_t v) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(v));
  return text;
}

}  // namespace peri
