// Heads are written by hand: a dozen fields at most, each of a fixed form.
#include "serve/http/message.hpp"

#include <charconv>
#include <cstring>

#include "base/fault.hpp"
#include "base/json.hpp"

namespace peri::serve {

bool BodyMemory::reserve(size_t bytes, size_t lead) {
  constexpr size_t kAlign = 64;
  if (bytes <= capacity_ && lead == lead_) return true;
  const size_t need = bytes + 2 * kAlign;
  const bool grown = data_ && lead == lead_;
  if (!grown && need <= whole_) {
    // The memory is reused; only the beginning of the body changes.
  } else {
    auto made = contained(
        [&]() -> Result<std::unique_ptr<std::byte[]>> { return std::make_unique_for_overwrite<std::byte[]>(need); });
    if (!made.ok()) return false;
    std::unique_ptr<std::byte[]> fresh = std::move(*made);
    const auto at = reinterpret_cast<uintptr_t>(fresh.get());
    std::byte* begin = fresh.get() + (kAlign - (at + lead) % kAlign) % kAlign;
    if (grown) std::memcpy(begin, data_, capacity_);
    memory_ = std::move(fresh);
    whole_ = need;
  }
  const auto at = reinterpret_cast<uintptr_t>(memory_.get());
  data_ = memory_.get() + (kAlign - (at + lead) % kAlign) % kAlign;
  lead_ = lead;
  capacity_ = whole_ - static_cast<size_t>(data_ - memory_.get());
  return true;
}

uint64_t HttpReply::body_bytes() const {
  uint64_t n = text.size();
  for (const Piece& p : pieces) n += p.bytes.size();
  return n;
}

HttpReply error_reply(int status, std::string_view message) {
  HttpReply out;
  out.status = status;
  JsonWriter w;
  w.begin_object().field("error", message).end_object();
  out.text = w.take();
  return out;
}

HttpReply wrong_method(std::string_view methods, std::string_view message) {
  HttpReply out = error_reply(405, message);
  out.allow = methods;
  return out;
}

static std::string_view reason_of(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 411: return "Length Required";
    case 413: return "Payload Too Large";
    case 415: return "Unsupported Media Type";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 499: return "Client Closed Request";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    default: return "Unknown";
  }
}

void write_head(const HttpReply& reply, After after, std::string* out) {
  char digits[24];
  const auto number = [&](uint64_t v) {
    out->append(digits, static_cast<size_t>(std::to_chars(digits, digits + sizeof digits, v).ptr - digits));
  };
  out->append("HTTP/1.1 ");
  number(static_cast<uint64_t>(reply.status));
  out->append(" ").append(reason_of(reply.status));
  if (reply.body_bytes() > 0) out->append("\r\nContent-Type: ").append(reply.content_type);
  if (!reply.content_encoding.empty()) out->append("\r\nContent-Encoding: ").append(reply.content_encoding);
  if (reply.json_bytes) {
    out->append("\r\nInference-Header-Content-Length: ");
    number(*reply.json_bytes);
  }
  if (reply.retry_after_s > 0) {
    out->append("\r\nRetry-After: ");
    number(static_cast<uint64_t>(reply.retry_after_s));
  }
  if (!reply.authenticate.empty()) out->append("\r\nWWW-Authenticate: ").append(reply.authenticate);
  if (!reply.allow.empty()) out->append("\r\nAllow: ").append(reply.allow);
  out->append("\r\nContent-Length: ");
  number(reply.body_bytes());
  if (after == After::kClosed) out->append("\r\nConnection: close");
  if (after == After::kSaidOpen) out->append("\r\nConnection: keep-alive");
  out->append("\r\n\r\n");
}

}  // namespace peri::serve
