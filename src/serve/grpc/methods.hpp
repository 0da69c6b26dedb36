// The calls of the service except inference, as the corresponding HTTP requests: one API answers both, so that both
// protocols have the same permissions.
#pragma once

#include <string>
#include <string_view>

#include "serve/grpc/wire.hpp"
#include "serve/http/message.hpp"

namespace peri::serve {

// A request in HTTP's words.
struct Ask {
  std::string_view verb;
  std::string target, body;
  std::string about = {};  // of a watch: the service
};

struct Method {
  std::string_view path;  // "/inference.GRPCInferenceService/ServerLive"
  // Null: an inference, one or a stream of them.
  Result<Ask> (*ask)(Bytes message, const MessageLimits& limits) = nullptr;
  // The message of an answer. REQUIRES: ask; a status below 400, where `says_by_status` is not set.
  Result<std::string> (*answer)(const HttpReply& reply) = nullptr;
  bool says_by_status = false;  // the answer is whether the status is 200
  bool stream = false;
  bool open = false;   // of who has no key, too
  bool watch = false;  // one request, and a message for each change of the answer's status
};

// Null: there is none of this path.
const Method* find_method(std::string_view path);
// The sentence of an error's reply.
std::string error_sentence(const HttpReply& reply);
// What a stream sends: an answer to one request, or its error. `head`: what stands before the bytes of the answer.
void put_stream_head(size_t answer_bytes, std::string* head);
std::string stream_error(const std::string& sentence);

}  // namespace peri::serve
