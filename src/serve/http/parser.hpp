// RequestParser: parses HTTP/1.1 requests in the caller's memory. Fields are views of it; chunks of a body are passed
// on as they are found.
#pragma once

#include "serve/http/head.hpp"

namespace peri::serve {

class RequestParser {
 public:
  enum class Found : uint8_t { kMore, kHeader, kWhole, kTooLarge, kBad };

  explicit RequestParser(const HttpLimits& limits);
  ~RequestParser();
  // Resets the parser; the next put() begins a request.
  void begin();
  // Parses bytes that follow those of earlier calls; they must not have moved since begin() until the header is
  // complete. Adds the number of consumed bytes to `taken`. After kHeader the caller reads a body without chunks;
  // chunks are passed to `chunk`, until kWhole.
  Found put(const char* bytes, size_t count, size_t* taken);
  bool begun() const;
  bool chunked() const;
  std::optional<uint64_t> content_length() const;
  bool keep_alive() const;
  bool old() const;  // HTTP/1.0
  RequestHead& head();
  std::string_view error() const;  // the reason of kBad or kTooLarge

  std::function<bool(std::string_view)> chunk;  // false: no memory for it

 private:
  struct Grammar;
  const HttpLimits limits_;
  std::unique_ptr<std::optional<Grammar>> grammar_;
  std::string error_;
};

}  // namespace peri::serve
