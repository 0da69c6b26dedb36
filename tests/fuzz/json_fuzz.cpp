// Any bytes as JSON: refused or read, within the parser's limits; what is JSON reads alike where more is allowed.
// links: base
#include <cstdlib>
#include <string_view>

#include "base/json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto strict = peri::parse_json(text);
  const auto more = peri::parse_json(text, {.non_finite = true});
  if (!strict.ok()) return 0;
  if (!more.ok() || peri::JsonWriter().value(*strict).text() != peri::JsonWriter().value(*more).text()) std::abort();
  return 0;
}
