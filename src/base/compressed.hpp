// gzip, zlib and raw deflate streams in memory, with a limit on the output: a few bytes may decompress to terabytes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.hpp"

namespace peri {

enum class Compression : uint8_t { kGzip, kZlib, kDeflate };  // kDeflate: without header and checksum

// The contents of one whole stream. `room`, if set, is called before memory is allocated for them, with the number of
// bytes held from then on (the old copy included), and after each growth with what is still held; false ends
// decompression. Errors: kInvalid (corrupt, truncated, or bytes after the stream's end), kMemory (more than `most`),
// kRefused (`room` returned false).
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
