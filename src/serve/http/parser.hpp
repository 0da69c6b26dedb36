// RequestParser: HTTP/1.1 requests in memory of the caller. Their fields become views of it; chunks of a body are
// passed on as they are found.
#pragma once

#include "serve/http/head.hpp"

namespace peri::serve {

class RequestParser {
 public:
  enum class Found : uint8_t { kMore, kHeader, kWhole, kTooLarge, kBad };

  explicit RequestParser(const HttpLimits& limits);
  ~RequestParser();
  // Forgets the request; the next put() begins one.
  void begin();
  // Takes bytes that follow those taken before, which have not moved since begin() as long as the header lasts. Adds to
  // `taken`. After kHeader a body without chunks is the caller's; chunks go to `chunk`, until kWhole.
  Found put(const char* bytes, size_t count, size_t* taken);
  bool begun() const;
  bool chunked() const;
  std::optional<uint64_t> content_length() const;
  bool keep_alive() const;
  bool old() const;  // it is of HTTP/1.0
  RequestHead& head();
  std::string_view error() const;  // why kBad or kTooLarge

  std::function<bool(std::string_view)> chunk;  // false: no room for it

 private:
  struct Grammar;
  const HttpLimits limits_;
  std::unique_ptr<std::optional<Grammar>> grammar_;
  std::string error_;
};

}  // namespace peri::serve
