// Any bytes as answers of an HTTP server to the load tool, in pieces as a network may cut them: the same answer
// whatever the pieces, and nothing taken that did not come.
// links: serve
#include <cstdlib>

#include "serve/load/reply_parser.hpp"
#include "serve/observe/record.hpp"

namespace {

using peri::serve::ReplyParser;
using Found = ReplyParser::Found;

struct Heard {
  Found end = Found::kMore;
  int status = 0;
  std::string body;
  size_t taken = 0;
  bool operator==(const Heard&) const = default;
};

Heard hear(std::string_view bytes, size_t step) {
  Heard out;
  ReplyParser parser;
  parser.begin();
  parser.body = [&](std::string_view piece) {
    out.body += piece;
    return true;
  };
  while (out.taken < bytes.size() && out.end == Found::kMore) {
    const std::string_view piece = bytes.substr(out.taken, step);
    size_t taken = 0;
    out.end = parser.put(piece, &taken);
    if (taken > piece.size()) std::abort();
    if (out.end == Found::kMore && taken != piece.size()) std::abort();
    out.taken += taken;
  }
  if (out.end != Found::kWhole) return {out.end, 0, "", 0};
  out.status = parser.status();
  if (parser.body_bytes() != out.body.size()) std::abort();
  return out;
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Heard whole = hear(bytes, size + 1);
  for (const size_t step : {1, 7}) {
    const Heard cut = hear(bytes, step);
    if (whole.end == Found::kWhole && !(whole == cut)) std::abort();
  }
  peri::serve::TraceContext context;
  if (peri::serve::read_traceparent(bytes, &context) && bytes.size() < 55) std::abort();
  return 0;
}
