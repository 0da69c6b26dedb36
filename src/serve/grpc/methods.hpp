// The calls of the service except inference, as the corresponding HTTP requests: one API answers both, so that both
// protocols have the same permissions.
#pragma once

#include <string>
#include <string_view>

#include "serve/grpc/wire.hpp"
#include "serve/http/message.hpp"

namespace peri::serve {

// A call as an HTTP request.
struct Ask {
  std::string_view verb;
  std::string target, body;
  std::string about = {};  // the service to watch
};

struct Method {
  std::string_view path;  // "/inference.GRPCInferenceService/ServerLive"
  // Converts the message to a request. Null: an inference call, unary or streaming.
  Result<Ask> (*ask)(Bytes message, const MessageLimits& limits) = nullptr;
  // The response message. REQUIRES: ask is not null; the status is below 400 unless `says_by_status` is set.
  Result<std::string> (*answer)(const HttpReply& reply) = nullptr;
  bool says_by_status = false;  // the response states whether the status is 200
  bool stream = false;
  bool open = false;   // permitted without a key
  bool watch = false;  // one request, and one message per change of the status
};

// Null: no method has this path.
const Method* find_method(std::string_view path);
// The message of an error reply.
std::string error_sentence(const HttpReply& reply);
// The bytes of a stream's response before the `answer_bytes` of the inference response, which is one of its fields.
void put_stream_head(size_t answer_bytes, std::string* head);
// The message of a stream that a request failed; `id`: the client's name of it.
std::string stream_error(const std::string& sentence, const std::string& id);

}  // namespace peri::serve
