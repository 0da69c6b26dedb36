// Any bytes as JSON: refused or read, within the parser's limits.
// links: base
#include <string_view>

#include "base/json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)peri::parse_json(std::string_view(reinterpret_cast<const char*>(data), size)).ok();
  return 0;
}
