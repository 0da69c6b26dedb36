// gzip, zlib and bare deflate streams in memory, with a bound on what comes out: a few bytes may stand for terabytes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.hpp"

namespace peri {

enum class Compression : uint8_t { kGzip, kZlib, kDeflate };  // kDeflate: without head and check sum

// The contents of one whole stream. `room`, if set, is told before memory is taken for them how many bytes are held
// then, with those that they are copied from, and false is the end of it; and how many are left once that is done.
// Errors: kInvalid (broken, cut, bytes behind its end), kMemory (more than `most`), kRefused (no room).
Result<std::string> decompress(std::span<const std::byte> bytes, Compression form, size_t most,
                               const std::function<bool(size_t held)>& room = nullptr);

// Appends to a stream; finish() ends it.
class Compressor {
 public:
  explicit Compressor(Compression form);
  ~Compressor();
  void add(std::span<const std::byte> bytes);
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace peri
