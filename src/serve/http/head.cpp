// Field names are compared by length first: most fields of a request are not needed.
#include "serve/http/head.hpp"

#include <algorithm>
#include <charconv>

namespace peri::serve {

bool same_field(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  for (size_t k = 0; k < a.size(); ++k)
    if (lower(a[k]) != lower(b[k])) return false;
  return true;
}

static std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// "q=0.5" in thousandths; invalid: 0, so that no client receives an encoding that it may not accept.
static int weight_of(std::string_view text) {
  if (text.size() < 3 || !same_field(text.substr(0, 2), "q=") || text.size() > 7) return 0;
  int out = 0, unit = 1000;
  bool point = false;
  for (const char c : text.substr(2)) {
    if (c == '.' && !point) {
      point = true;
    } else if (c < '0' || c > '9') {
      return 0;
    } else {
      if (point) unit /= 10;
      out += (c - '0') * (point ? unit : 1000);
    }
  }
  return out <= 1000 ? out : 0;
}

// Calls `take` with the name and the weight of each item of a list. `parameters`: items may have others than the
// weight.
template <class Take>
static void each_weighted(std::string_view list, bool parameters, const Take& take) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    size_t semicolon = item.find(';');
    const std::string_view name = trimmed(item.substr(0, semicolon));
    int weight = 1000;
    while (semicolon != std::string_view::npos) {
      item.remove_prefix(semicolon + 1);
      semicolon = item.find(';');
      const std::string_view parameter = trimmed(item.substr(0, semicolon));
      if (!parameters || same_field(parameter.substr(0, 2), "q=")) weight = weight_of(parameter);
    }
    take(name, weight);
  }
}

std::string_view preferred_encoding(std::string_view list) {
  int best = 0;
  std::string_view out;
  each_weighted(list, false, [&](std::string_view name, int weight) {
    for (const std::string_view known : {"gzip", "deflate"})
      if (same_field(name, known) && weight > best) {
        best = weight;
        out = known;
      }
  });
  return out;
}

bool prefers_type(std::string_view list, std::string_view type, std::string_view other) {
  const std::string any = std::string(other.substr(0, other.find('/'))) + "/*";
  int wanted = 0, exact = -1, range = 0, all = 0;
  each_weighted(list, true, [&](std::string_view name, int weight) {
    if (same_field(name, type)) wanted = std::max(wanted, weight);
    if (same_field(name, other)) exact = std::max(exact, weight);
    if (same_field(name, any)) range = weight;
    if (name == "*/*") all = weight;
  });
  return wanted > 0 && wanted >= (exact >= 0 ? exact : range > 0 ? range : all);
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t k = 0; k < text.size(); ++k) {
    uint8_t byte = 0;
    if (text[k] == '%' && k + 2 < text.size()) {
      const auto read = std::from_chars(text.data() + k + 1, text.data() + k + 3, byte, 16);
      if (read.ec == std::errc() && read.ptr == text.data() + k + 3) {
        out += static_cast<char>(byte);
        k += 2;
        continue;
      }
    }
    out += text[k];
  }
  return out;
}

bool RequestHead::count() {
  too_many = ++fields > most_fields;
  return !too_many;
}

bool RequestHead::take(std::string_view name, std::string_view value) {
  if (!count()) return false;
  if (same_field(name, "host")) {
    ++hosts;
  } else if (same_field(name, "content-type")) {
    request.content_type = value;
  } else if (same_field(name, "content-encoding")) {
    // Two fields are a list of two encodings, which is not supported.
    request.content_encoding = request.content_encoding.empty() ? value : std::string_view("two of them");
  } else if (same_field(name, "transfer-encoding")) {
    return same_field(value, "chunked");  // otherwise the body's end is unknown: request smuggling
  } else if (same_field(name, "accept-encoding")) {
    request.accept_encoding = value;
  } else if (same_field(name, "accept")) {
    if (request.accept.empty()) request.accept = value;
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
