// Any bytes as a compressed stream, the first of them its form and the bound on what comes out: refused, or bytes
// within the bound that come out of a stream of our own, too.
// links: base
#include <cstdlib>

#include "base/compressed.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const auto form = static_cast<peri::Compression>(data[0] % 3);
  const size_t most = size_t{1} << (data[0] / 3 % 20);
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  const auto out = peri::decompress(bytes, form, most);
  if (!out.ok()) return 0;
  if (out->size() > most) std::abort();
  if (!out->empty() && peri::decompress(bytes, form, out->size() - 1).ok()) std::abort();
  peri::Compressor again(form);
  again.add(std::as_bytes(std::span(*out)));
  const std::string packed = again.finish();
  const auto back = peri::decompress(std::as_bytes(std::span(packed)), form, most);
  if (!back.ok() || *back != *out) std::abort();
  return 0;
}
