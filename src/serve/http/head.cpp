// Field names are compared by length first: most fields of a request are none of ours.
#include "serve/http/head.hpp"

#include <charconv>

namespace peri::serve {

bool same_field(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  for (size_t k = 0; k < a.size(); ++k)
    if (lower(a[k]) != lower(b[k])) return false;
  return true;
}

bool RequestHead::count() {
  too_many = ++fields > most_fields;
  return !too_many;
}

bool RequestHead::take(std::string_view name, std::string_view value) {
  if (!count()) return false;
  if (same_field(name, "content-type")) {
    request.content_type = value;
  } else if (same_field(name, "content-encoding")) {
    request.content_encoding = value;
  } else if (same_field(name, "accept-encoding")) {
    request.accept_encoding = value;
  } else if (same_field(name, "user-agent")) {
    request.user_agent = value;
  } else if (same_field(name, "traceparent")) {
    request.traceparent = value;
  } else if (same_field(name, "authorization")) {
    request.authorization = value;
  } else if (same_field(name, "expect")) {
    expect_continue = same_field(value, "100-continue");
    unknown_expectation = !expect_continue;
  } else if (same_field(name, "inference-header-content-length")) {
    uint64_t v = 0;
    const auto read = std::from_chars(value.data(), value.data() + value.size(), v);
    request.bad_json_bytes = request.bad_json_bytes || request.json_bytes || value.empty() || read.ec != std::errc() ||
                             read.ptr != value.data() + value.size();
    request.json_bytes = v;
  }
  return true;
}

}  // namespace peri::serve
