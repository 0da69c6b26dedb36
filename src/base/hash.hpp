// Hasher: 64-bit xxh3 over a stream of bytes, the same on every machine. For content identity and checksums; not
// cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace peri {

class Hasher {
 public:
  explicit Hasher(uint64_t seed = 0);
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  Hasher& add_bytes(const void* data, size_t size);
  Hasher& add(std::string_view text) { return add_bytes(text.data(), text.size()); }
  Hasher& add_i64(int64_t v) { return add_bytes(&v, sizeof v); }
  uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

uint64_t hash_bytes(const void* data, size_t size, uint64_t seed = 0);
inline uint64_t hash_text(std::string_view text, uint64_t seed = 0) {
  return hash_bytes(text.data(), text.size(), seed);
}
std::string hex64(uint64_t v);  // 16 lower-case digits

}  // namespace peri
