// The part of RFC 9113 and 7541 that a client with one call at a time needs. Huffman codes are limited to the letters
// of one name and the digits: a string is compared in coded form.
#include "serve/load/http2.hpp"

#include <algorithm>
#include <charconv>

#include "serve/load/wanted.hpp"

namespace peri::serve {

namespace {
enum Type : uint8_t { kData, kHeaders, kPriority, kReset, kSettings, kPush, kPing, kGoAway, kWindow, kContinuation };
constexpr uint8_t kEndStream = 1, kAck = 1, kEndHeaders = 4, kPadded = 8, kHasPriority = 32;
constexpr uint32_t kMaxWindow = 0x7fffffff;
constexpr int64_t kFirstWindow = 65535;
constexpr uint32_t kFirstFrame = 16384;
constexpr size_t kMaxBlock = 65536;

void put_u32(uint32_t v, std::string* out) {
  for (int shift = 24; shift >= 0; shift -= 8) out->push_back(static_cast<char>(v >> shift & 255));
}
uint32_t u32(std::string_view bytes) {
  uint32_t v = 0;
  for (int k = 0; k < 4; ++k) v = v << 8 | static_cast<uint8_t>(bytes[static_cast<size_t>(k)]);
  return v;
}

// An integer with a prefix of `bits` bits (RFC 7541, 5.1); `first` has the other bits of the first byte.
void put_number(uint8_t first, int bits, size_t v, std::string* out) {
  const size_t most = (size_t{1} << bits) - 1;
  if (v < most) return out->push_back(static_cast<char>(first | v));
  out->push_back(static_cast<char>(first | most));
  for (v -= most; v >= 128; v /= 128) out->push_back(static_cast<char>(v % 128 + 128));
  out->push_back(static_cast<char>(v));
}
bool take_number(int bits, std::string_view* in, size_t* v) {
  if (in->empty()) return false;
  const size_t most = (size_t{1} << bits) - 1;
  *v = static_cast<uint8_t>(in->front()) & most;
  in->remove_prefix(1);
  if (*v < most) return true;
  for (int shift = 0; shift < 28; shift += 7) {
    if (in->empty()) return false;
    const uint8_t byte = static_cast<uint8_t>(in->front());
    in->remove_prefix(1);
    *v += size_t{byte & 127u} << shift;
    if (byte < 128) return true;
  }
  return false;
}

// A field that is not added to a table. `index`: of its name in the static table; 0: the name follows.
void put_field(size_t index, std::string_view name, std::string_view value, std::string* out) {
  put_number(0, 4, index, out);
  if (index == 0) {
    put_number(0, 7, name.size(), out);
    *out += name;
  }
  put_number(0, 7, value.size(), out);
  *out += value;
}

// Huffman-coded (RFC 7541, appendix B). "" if a letter is not in the table.
std::string coded(std::string_view text) {
  struct Letter {
    char c;
    uint8_t code;
    uint8_t bits;
  };
  constexpr Letter kLetters[] = {{'0', 0x0, 5},  {'1', 0x1, 5},  {'2', 0x2, 5},  {'3', 0x19, 6}, {'4', 0x1a, 6},
                                 {'5', 0x1b, 6}, {'6', 0x1c, 6}, {'7', 0x1d, 6}, {'8', 0x1e, 6}, {'9', 0x1f, 6},
                                 {'-', 0x16, 6}, {'a', 0x3, 5},  {'c', 0x4, 5},  {'g', 0x26, 6}, {'p', 0x2b, 6},
                                 {'r', 0x2c, 6}, {'s', 0x8, 5},  {'t', 0x9, 5},  {'u', 0x2d, 6}};
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    const auto* const letter =
        std::find_if(std::begin(kLetters), std::end(kLetters), [&](const Letter& l) { return l.c == c; });
    if (letter == std::end(kLetters)) return "";
    bits = bits << letter->bits | letter->code;
    for (have += letter->bits; have >= 8; have -= 8) out.push_back(static_cast<char>(bits >> (have - 8) & 255));
  }
  if (have > 0) out.push_back(static_cast<char>((bits << (8 - have) | ((1u << (8 - have)) - 1)) & 255));
  return out;
}

// A string, and whether it is Huffman-coded.
struct Said {
  std::string_view bytes;
  bool code = false;
  bool is(std::string_view text) const { return code ? bytes == coded(text) : bytes == text; }
};
bool take_string(std::string_view* in, Said* out) {
  if (in->empty()) return false;
  out->code = static_cast<uint8_t>(in->front()) >= 128;
  size_t size = 0;
  if (!take_number(7, in, &size) || size > in->size()) return false;
  out->bytes = in->substr(0, size);
  in->remove_prefix(size);
  return true;
}

// The value of a decimal string up to `most`; -1: none.
int number_of(const Said& said, int most) {
  for (int k = 0; k <= most; ++k)
    if (said.is(std::to_string(k))) return k;
  return -1;
}

// The text of a grpc-message, in which %0A stands for a byte.
std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t k = 0; k < text.size() && out.size() < Wire::kMaxSaid; ++k) {
    unsigned byte = static_cast<unsigned char>(text[k]);
    if (text[k] == '%' && k + 2 < text.size()) {
      const char* const end = text.data() + k + 3;
      const auto [stop, code] = std::from_chars(end - 2, end, byte, 16);
      if (code == std::errc() && stop == end)
        k += 2;
      else
        byte = '%';
    }
    out.push_back(static_cast<char>(byte));
  }
  return out;
}

std::string code_name(int code) {
  constexpr const char* kNames[] = {
      "",          "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  return kNames[code];
}

constexpr size_t kIndexes[] = {200, 204, 206, 304, 400, 404, 500};  // of :status, from index 8
}  // namespace

GrpcRequest grpc_request(const Endpoint& where, std::string_view method, std::string_view message) {
  GrpcRequest out;
  out.headers = {'\x83', where.secure ? '\x87' : '\x86'};  // :method POST, :scheme
  put_field(4, "", method, &out.headers);
  put_field(1, "", where.authority(), &out.headers);
  put_field(31, "", "application/grpc", &out.headers);
  put_field(58, "", "peri-bench", &out.headers);
  if (!where.key.empty()) put_field(23, "", "Bearer " + where.key, &out.headers);
  put_field(0, "te", "trailers", &out.headers);
  for (const auto& [name, value] : where.headers) put_field(0, name, value, &out.headers);
  out.message.push_back('\0');
  put_u32(static_cast<uint32_t>(message.size()), &out.message);
  out.message += message;
  return out;
}

std::string Http2Wire::wrong() const { return request_->wanted.empty() ? "" : grpc_differs(request_->wanted, answer_); }

void Http2Wire::begin() {
  in_.clear();
  sent_.clear();
  stream_ = 0;
  open_ = going_ = false;
  window_ = first_window_ = kFirstWindow;
  most_frame_ = kFirstFrame;
  unsaid_ = 0;
  out_ = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  std::string settings;
  for (const auto& [id, value] :
       {std::pair<uint8_t, uint32_t>{1, 0}, {2, 0}, {4, kMaxWindow}}) {  // table size, push, window
    settings += {'\0', static_cast<char>(id)};
    put_u32(value, &settings);
  }
  frame(kSettings, 0, 0, settings);
  std::string wide;
  put_u32(kMaxWindow - static_cast<uint32_t>(kFirstWindow), &wide);
  frame(kWindow, 0, 0, wide);
}

void Http2Wire::frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
  const auto size = static_cast<uint32_t>(payload.size());
  for (const int shift : {16, 8, 0}) out_.push_back(static_cast<char>(size >> shift & 255));
  out_ += {static_cast<char>(type), static_cast<char>(flags)};
  put_u32(stream, &out_);
  out_ += payload;
}

std::string_view Http2Wire::ask() {
  request_ = next_();
  stream_ += stream_ == 0 ? 1 : 2;
  open_ = true;
  said_.clear();
  whole_ = ends_ = false;
  stream_window_ = first_window_;
  at_ = 0;
  status_ = 0;
  code_ = -1;
  seen_ = 0;
  block_.clear();
  answer_.clear();
  failure_ = "no answer";
  frame(kHeaders, kEndHeaders, stream_, request_->headers);
  send_body();
  return more();
}

// Sends as much as the flow control windows permit.
void Http2Wire::send_body() {
  const std::string_view message = request_->message;
  while (open_ && at_ < message.size()) {
    const int64_t room = std::min({window_, stream_window_, int64_t{most_frame_}});
    if (room <= 0) return;
    const std::string_view piece = message.substr(at_, static_cast<size_t>(room));
    at_ += piece.size();
    window_ -= static_cast<int64_t>(piece.size());
    stream_window_ -= static_cast<int64_t>(piece.size());
    frame(kData, at_ == message.size() ? kEndStream : 0, stream_, piece);
  }
}

std::string_view Http2Wire::more() {
  sent_.clear();
  sent_.swap(out_);
  return sent_;
}

Wire::Heard Http2Wire::hear(std::string_view bytes) {
  in_ += bytes;
  std::string_view rest = in_;
  whole_ = false;
  while (rest.size() >= 9) {
    const size_t size = u32(rest) >> 8;
    if (size > kFirstFrame) return Heard::kBad;  // no larger size was announced
    if (rest.size() < 9 + size) break;
    const auto type = static_cast<uint8_t>(rest[3]), flags = static_cast<uint8_t>(rest[4]);
    if (!take(type, flags, u32(rest.substr(5)) & kMaxWindow, rest.substr(9, size))) return Heard::kBad;
    rest.remove_prefix(9 + size);
  }
  in_.erase(0, in_.size() - rest.size());
  return whole_ ? Heard::kAnswer : Heard::kMore;
}

bool Http2Wire::take(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
  if (!block_.empty() && type != kContinuation) return false;
  switch (type) {
    case kData: return take_data(flags, stream, payload);
    case kHeaders:
    case kContinuation: return take_headers(type, flags, stream, payload);
    case kSettings: return flags & kAck ? true : take_settings(payload);
    case kPush: return false;
    case kPing:
      if (payload.size() != 8) return false;
      if (!(flags & kAck)) frame(kPing, kAck, 0, payload);
      return true;
    case kReset:
      if (payload.size() != 4) return false;
      if (open_ && stream == stream_) {
        failure_ = "reset with error " + std::to_string(u32(payload));
        open_ = false;
        whole_ = true;
      }
      return true;
    case kGoAway:
      if (payload.size() < 8) return false;
      going_ = true;
      if (open_ && (u32(payload) & kMaxWindow) < stream_) {
        failure_ = "the server goes";
        open_ = false;
        whole_ = true;
      }
      return true;
    case kWindow:
      if (payload.size() != 4) return false;
      (stream == 0 ? window_ : stream_window_) += stream == 0 || stream == stream_ ? u32(payload) & kMaxWindow : 0;
      send_body();
      return true;
    default: return true;  // unknown frames are ignored
  }
}

bool Http2Wire::take_settings(std::string_view payload) {
  if (payload.size() % 6 != 0) return false;
  for (; !payload.empty(); payload.remove_prefix(6)) {
    const uint32_t value = u32(payload.substr(2));
    const int id = static_cast<uint8_t>(payload[1]);
    if (payload[0] != 0) continue;
    if (id == 4) {
      stream_window_ += int64_t{value} - first_window_;
      first_window_ = value;
    } else if (id == 5) {
      most_frame_ = std::clamp<uint32_t>(value, kFirstFrame, 1 << 20);
    }
  }
  frame(kSettings, kAck, 0, "");
  send_body();
  return true;
}

static bool take_padding(uint8_t flags, std::string_view* payload) {
  if (!(flags & kPadded)) return true;
  if (payload->empty() || static_cast<uint8_t>(payload->front()) >= payload->size()) return false;
  payload->remove_suffix(static_cast<uint8_t>(payload->front()));
  payload->remove_prefix(1);
  return true;
}

bool Http2Wire::take_data(uint8_t flags, uint32_t stream, std::string_view payload) {
  unsaid_ += payload.size();
  if (unsaid_ > 1 << 29) {
    std::string wide;
    put_u32(static_cast<uint32_t>(unsaid_), &wide);
    frame(kWindow, 0, 0, wide);
    unsaid_ = 0;
  }
  if (!take_padding(flags, &payload)) return false;
  if (!open_ || stream != stream_) return true;
  seen_ += payload.size();
  if (seen_ > most_) return false;
  if (keeps_) answer_ += payload;
  if (flags & kEndStream) end_of_call();
  return true;
}

bool Http2Wire::take_headers(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
  if (type == kHeaders) {
    if (!take_padding(flags, &payload)) return false;
    if (flags & kHasPriority) {
      if (payload.size() < 5) return false;
      payload.remove_prefix(5);
    }
    ends_ = flags & kEndStream;
  }
  block_ += payload;
  if (block_.size() > kMaxBlock) return false;
  if (!(flags & kEndHeaders)) return !block_.empty();
  const bool mine = open_ && stream == stream_;
  const bool good = !mine || read_block();
  block_.clear();
  if (mine && ends_) end_of_call();
  return good;
}

bool Http2Wire::read_block() {
  std::string_view in = block_;
  while (!in.empty()) {
    const auto first = static_cast<uint8_t>(in.front());
    size_t index = 0;
    if (first >= 128) {
      if (!take_number(7, &in, &index) || index > 61) return false;  // the dynamic table is empty
      if (index >= 8 && index <= 14) status_ = static_cast<int>(kIndexes[index - 8]);
      continue;
    }
    if (first >= 32 && first < 64) {  // a table size update
      if (!take_number(5, &in, &index)) return false;
      continue;
    }
    Said name, value;
    if (!take_number(first >= 64 ? 6 : 4, &in, &index) || index > 61) return false;
    if (index == 0 && !take_string(&in, &name)) return false;
    if (!take_string(&in, &value)) return false;
    if (index >= 8 && index <= 14) status_ = number_of(value, 599);
    if (index == 0 && name.is("grpc-status")) code_ = number_of(value, 16);
    if (index == 0 && name.bytes == "grpc-message" && !value.code) said_ = unescaped(value.bytes);
  }
  return true;
}

void Http2Wire::end_of_call() {
  open_ = false;
  whole_ = true;
  if (at_ < request_->message.size()) going_ = true;  // the rest of the request is no longer sent
  failure_ = code_ >= 0 ? code_name(code_) : status_ != 200 ? "status " + std::to_string(status_) : "no status of gRPC";
}

}  // namespace peri::serve
