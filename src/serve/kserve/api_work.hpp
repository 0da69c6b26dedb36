// A request inside the Api, and the replies shared by its parts. Only for the Api's own sources.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/compressed.hpp"
#include "serve/kserve/api.hpp"
#include "serve/kserve/told.hpp"

namespace peri::serve {

struct Api::Work {
  std::shared_ptr<Exchange> exchange;
  ServedPtr served;
  InferRequest request;
  Call call;
  std::span<const std::byte> body;
  std::shared_ptr<const void> body_owner;
  std::optional<Compression> accepts;
  bool replied = false;
  Way way = Way::kPublic;
  std::unique_ptr<RequestRecord> record;  // null without an Observer; outlives the request's views
};

inline int status_of(const Error& e) {
  switch (e.kind) {
    case ErrorKind::kUsage:
    case ErrorKind::kInvalid: return 400;
    case ErrorKind::kUnsupported: return 501;
    case ErrorKind::kMemory:
    case ErrorKind::kRefused: return 503;
    case ErrorKind::kCancelled: return 499;
    default: return 500;
  }
}

inline HttpReply text_reply(std::string text) {
  HttpReply out;
  out.text = std::move(text);
  return out;
}
inline HttpReply bare_reply(int status) {
  HttpReply out;
  out.status = status;
  return out;
}
// 503 for a request that may succeed if repeated.
inline HttpReply again_reply(std::string_view why) {
  HttpReply out = error_reply(503, why);
  out.retry_after_s = 1;
  return out;
}

}  // namespace peri::serve
