// Any bytes as what a server of HTTP/2 says to the load tool's gRPC calls, in pieces as a network may cut them: calls
// end alike whatever the pieces, nothing is kept beyond its bound, and nothing said beyond what was asked.
// links: serve
#include <cstdlib>

#include "serve/load/http2.hpp"

namespace {

using peri::serve::Http2Wire;
using Heard = peri::serve::Wire::Heard;

constexpr uint64_t kMaxAhead = 4096;
constexpr size_t kMessage = 100000;  // more than the windows have room for at first

struct Call {
  Heard end = Heard::kMore;
  std::string failure, answer;
  bool operator==(const Call&) const = default;
};

// What comes of the bytes: calls one after another, as long as they end well.
std::vector<Call> hear(std::string_view bytes, size_t step, std::string* said) {
  static const auto request = std::make_shared<const peri::serve::GrpcRequest>(
      peri::serve::grpc_request(peri::serve::Endpoint(), "/s/m", std::string(kMessage, 'b')));
  Http2Wire wire(request, kMaxAhead);
  wire.keep_answer();
  wire.begin();
  *said += wire.ask();
  std::vector<Call> out;
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, step);
    bytes.remove_prefix(piece.size());
    const Heard heard = wire.hear(piece);
    *said += wire.more();
    if (wire.answer().size() > kMaxAhead) std::abort();
    if (heard == Heard::kMore) continue;
    out.push_back({heard, heard == Heard::kBad ? "" : wire.failure(), heard == Heard::kBad ? "" : wire.answer()});
    if (heard == Heard::kBad || !wire.keep_open()) break;
    *said += wire.ask();
  }
  return out;
}

// Whether that is the preface and whole frames, none larger than a peer may be sent unasked by more than 1 MiB.
bool well_formed(std::string_view said) {
  constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  if (!said.starts_with(kPreface)) return false;
  said.remove_prefix(kPreface.size());
  while (!said.empty()) {
    if (said.size() < 9) return false;
    const size_t size = size_t{static_cast<uint8_t>(said[0])} << 16 | size_t{static_cast<uint8_t>(said[1])} << 8 |
                        static_cast<uint8_t>(said[2]);
    if (size > 1 << 20 || said.size() < 9 + size) return false;
    said.remove_prefix(9 + size);
  }
  return true;
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::string said;
  // Byte by byte each call is asked before what answers it comes.
  const std::vector<Call> one = hear(bytes, 1, &said);
  if (!well_formed(said)) std::abort();
  for (const size_t step : {size_t{7}, size + 1}) {
    said.clear();
    const std::vector<Call> other = hear(bytes, step, &said);
    if (!well_formed(said)) std::abort();
    if (one.empty() != other.empty()) std::abort();
    // What comes in one piece behind a call's end may be bad, and then the call is.
    if (!one.empty() && other[0].end != Heard::kBad && !(one[0] == other[0])) std::abort();
  }
  return 0;
}
