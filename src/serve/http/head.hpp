// The header fields that this server reads, received one by one from a parser, with a limit on their number.
#pragma once

#include "serve/http/message.hpp"

namespace peri::serve {

struct RequestHead {
  HttpRequest request;
  int most_fields = 100, fields = 0, hosts = 0;
  uint32_t chunks = 0;
  bool too_many = false, expect_continue = false, unknown_expectation = false;

  // Counts a field. False: there are too many.
  bool count();
  // Takes a field, its value without surrounding spaces. False: there are too many.
  bool take(std::string_view name, std::string_view value);
};

// For a list like "br, gzip;q=0.5, *;q=0": which of gzip and deflate the client prefers; "": neither.
std::string_view preferred_encoding(std::string_view list);
// For a list of media types: whether it names `type`, and does not want `other` more.
bool prefers_type(std::string_view list, std::string_view type, std::string_view other);
// Whether two field names are equal, ignoring case.
bool same_field(std::string_view a, std::string_view b);

// A part of a path with percent escapes decoded: "a%2Bb" is "a+b", and "a+b" is unchanged, since a plus means a space
// only in forms. A '%' without two hex digits is kept.
std::string percent_decoded(std::string_view text);

}  // namespace peri::serve
