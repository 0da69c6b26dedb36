// Any bytes as requests of HTTP/1.1, in pieces as a network may cut them: refused or read within the limits, and the
// same whatever the pieces.
// links: serve
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "serve/http/parser.hpp"

namespace {

using peri::serve::RequestParser;
using Found = RequestParser::Found;

peri::serve::HttpLimits limits() {
  peri::serve::HttpLimits l;
  l.header_bytes = 512;
  l.header_fields = 20;
  l.chunks = 16;
  return l;
}

struct Read {
  Found end = Found::kMore;
  std::string method, target, type, body;
  bool operator==(const Read&) const = default;
};

// One request from memory that does not move, `step` bytes more at a time, as a connection reads it.
Read read(const char* bytes, size_t size, size_t step) {
  Read out;
  RequestParser parser(limits());
  parser.chunk = [&](std::string_view piece) {
    out.body += piece;
    return out.body.size() <= 4096;
  };
  size_t at = 0, have = 0;
  bool header = false;
  while (have < size && (out.end == Found::kMore || out.end == Found::kHeader)) {
    have = std::min(size, have + step);
    size_t taken = at;
    out.end = parser.put(bytes + at, have - at, &taken);
    if (taken > have) std::abort();
    at = taken;
    if (out.end == Found::kHeader) {
      header = true;
      if (!parser.chunked()) break;
    }
    if (have == size && at < have && out.end == Found::kHeader) {
      taken = at;
      out.end = parser.put(bytes + at, have - at, &taken);
      at = taken;
    }
  }
  if (header || out.end == Found::kWhole) {
    const auto& r = parser.head().request;
    for (const std::string_view v : {r.method, r.target, r.content_type})
      if (!v.empty() && (v.data() < bytes || v.data() + v.size() > bytes + size)) std::abort();
    out.method = r.method;
    out.target = r.target;
    out.type = r.content_type;
  }
  return out;
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const char* bytes = reinterpret_cast<const char*>(data);
  const Read whole = read(bytes, size, size + 1);
  for (const size_t step : {1, 7}) {
    const Read cut = read(bytes, size, step);
    // Where both are read to the end they are the same request.
    if (whole.end == Found::kWhole && cut.end == Found::kWhole && !(whole == cut)) std::abort();
  }
  return 0;
}
