// ReplyParser: answers of an HTTP/1.1 server, in whatever pieces they come: status, whether the connection stays, and
// the body handed on piece by piece. Bounded in what it keeps.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace peri::serve {

class ReplyParser {
 public:
  enum class Found : uint8_t { kMore, kWhole, kBad };

  // Forgets the answer; the next put() begins one.
  void begin();
  // Takes bytes; after kWhole those behind the answer are left, and `taken`, if given, says how many were not.
  Found put(std::string_view bytes, size_t* taken);
  // The server has closed: the end of a body that has no length.
  Found end();
  int status() const { return status_; }
  bool keep_alive() const { return keep_alive_; }
  uint64_t body_bytes() const { return body_bytes_; }

  std::function<bool(std::string_view)> body;  // may be null; false: no room for it

 private:
  enum class State : uint8_t { kHead, kLength, kChunkSize, kChunk, kChunkEnd, kTrailer, kToEnd, kWhole };
  bool read_head(std::string_view head);
  bool take(std::string_view piece);
  bool read_line(std::string_view* rest, std::string* line, bool* whole);
  Found chunks(std::string_view bytes, size_t* used);

  State state_ = State::kHead;
  std::string kept_;  // of a head or a line that has not come whole
  int status_ = 0;
  bool keep_alive_ = true;
  uint64_t left_ = 0, body_bytes_ = 0;
};

}  // namespace peri::serve
