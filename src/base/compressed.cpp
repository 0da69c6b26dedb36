// Output grows with what comes out, never with what a stream claims.
#include "base/compressed.hpp"

#include <zlib.h>

#include <algorithm>

namespace peri {

static int window_bits(Compression form) {
  return form == Compression::kGzip ? 15 + 16 : form == Compression::kZlib ? 15 : -15;
}

// Memory for so many bytes, by half as much again as there is or what is left of `most`.
static bool reserve(size_t bytes, size_t most, const std::function<bool(size_t)>& room, std::string* out) {
  if (bytes <= out->capacity()) return true;
  const size_t next = std::max(bytes, std::min(most, out->capacity() + out->capacity() / 2));
  if (room && !room(out->capacity() + next)) return false;
  {
    std::string larger;  // of just that size, where one that grows takes twice what it had
    larger.reserve(next);
    larger.append(*out);
    out->swap(larger);
  }
  return !room || room(next);
}

Result<std::string> decompress(std::span<const std::byte> bytes, Compression form, size_t most,
                               const std::function<bool(size_t)>& room) {
  z_stream z = {};
  if (inflateInit2(&z, window_bits(form)) != Z_OK) return Error(ErrorKind::kMemory, "no memory to decompress");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&z, &inflateEnd);
  std::string out;
  char piece[16384];
  int code = Z_OK;
  size_t given = 0;
  while (code == Z_OK) {
    if (z.avail_in == 0) {
      const size_t n = std::min<size_t>(bytes.size() - given, 1 << 30);
      if (n == 0) return invalid("a compressed stream is cut");
      z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data() + given));
      z.avail_in = static_cast<uInt>(n);
      given += n;
    }
    z.next_out = reinterpret_cast<Bytef*>(piece);
    z.avail_out = sizeof piece;
    code = inflate(&z, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END) return invalid("a compressed stream is broken");
    const size_t n = sizeof piece - z.avail_out;
    if (n > most - out.size())
      return Error(ErrorKind::kMemory, format("a compressed stream holds more than %zu bytes", most));
    if (!reserve(out.size() + n, most, room, &out)) return refused("no room for what a compressed stream holds");
    out.append(piece, n);
  }
  if (z.avail_in > 0 || given < bytes.size()) return invalid("bytes behind the end of a compressed stream");
  return out;
}

struct Compressor::State {
  z_stream z = {};
  std::string out;
  void run(std::span<const std::byte> bytes, int flush) {
    char piece[16384];
    z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
    z.avail_in = static_cast<uInt>(bytes.size());
    do {
      z.next_out = reinterpret_cast<Bytef*>(piece);
      z.avail_out = sizeof piece;
      PERI_CHECK(deflate(&z, flush) != Z_STREAM_ERROR);
      out.append(piece, sizeof piece - z.avail_out);
    } while (z.avail_out == 0);
  }
};

Compressor::Compressor(Compression form) : state_(std::make_unique<State>()) {
  PERI_CHECK(deflateInit2(&state_->z, 1, Z_DEFLATED, window_bits(form), 8, Z_DEFAULT_STRATEGY) == Z_OK,
             "no memory to compress");
}
Compressor::~Compressor() { deflateEnd(&state_->z); }

void Compressor::add(std::span<const std::byte> bytes) {
  constexpr size_t kMaxInput = 1 << 30;  // of a call: zlib counts its input in 32 bits
  for (size_t at = 0; at < bytes.size(); at += kMaxInput)
    state_->run(bytes.subspan(at, std::min(kMaxInput, bytes.size() - at)), Z_NO_FLUSH);
}

std::string Compressor::finish() {
  state_->run({}, Z_FINISH);
  return std::move(state_->out);
}

}  // namespace peri
