// ReplyParser: incremental parser of HTTP/1.1 responses: status, whether the connection stays open, and the body,
// passed on in pieces. Its memory is bounded.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace peri::serve {

class ReplyParser {
 public:
  enum class Found : uint8_t { kMore, kWhole, kBad };

  // Resets the parser; the next put() begins a response.
  void begin();
  // Parses bytes; after kWhole the bytes after the response are not consumed. `taken`: receives the number consumed;
  // may be null.
  Found put(std::string_view bytes, size_t* taken);
  // The server has closed the connection: the end of a body without a length.
  Found end();
  int status() const { return status_; }
  bool keep_alive() const { return keep_alive_; }
  uint64_t body_bytes() const { return body_bytes_; }
  // Of the body, those of the JSON before binary tensors, by KServe v2's Inference-Header-Content-Length; 0: not said.
  uint64_t json_bytes() const { return json_bytes_; }

  std::function<bool(std::string_view)> body;  // may be null; false: no memory for it

 private:
  enum class State : uint8_t { kHead, kLength, kChunkSize, kChunk, kChunkEnd, kTrailer, kToEnd, kWhole };
  bool read_head(std::string_view head);
  bool take(std::string_view piece);
  bool read_line(std::string_view* rest, std::string* line, bool* whole);
  Found chunks(std::string_view bytes, size_t* used);

  State state_ = State::kHead;
  std::string kept_;  // an incomplete head or line
  int status_ = 0;
  bool keep_alive_ = true;
  uint64_t left_ = 0, body_bytes_ = 0, json_bytes_ = 0;
};

}  // namespace peri::serve
