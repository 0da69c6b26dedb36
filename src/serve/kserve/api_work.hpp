// A request inside the Api, and the replies shared by its parts. Only for the Api's own sources.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/compressed.hpp"
#include "serve/kserve/api.hpp"
#include "serve/kserve/told.hpp"

namespace peri::serve {

// The requests whose replies come later, from other threads.
class Api::Waiting {
 public:
  void add(Work& work);
  void remove(Work& work);
  std::vector<std::shared_ptr<Work>> all();

 private:
  std::mutex mutex_;  // also of the links of those listed
  Work* first_ = nullptr;
};

struct Api::Work : std::enable_shared_from_this<Api::Work> {
  ~Work() {
    if (waiting) waiting->remove(*this);
  }
  std::shared_ptr<Exchange> exchange;
  ServedPtr served;
  InferRequest request;
  Call call;
  std::span<const std::byte> body;
  std::shared_ptr<const void> body_owner;
  std::optional<Compression> accepts;
  // Between the thread that has the answer and the one that gives it up: of `replied`, and, once it is listed, of all
  // that a reply reads.
  std::mutex mutex;
  bool replied = false;
  std::shared_ptr<Waiting> waiting;  // null: not listed
  Work *before = nullptr, *after = nullptr;
  Way way = Way::kPublic;
  uint32_t charged = kNoKey;              // Pass::charged
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
