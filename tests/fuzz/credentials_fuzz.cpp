// Any bytes as a file of keys: refused without telling one, or keys that are let in and no other. The same bytes as
// the fields of a request that say who asks and of which trace it is a part.
// links: serve
#include <algorithm>
#include <cstdlib>

#include "serve/access/access.hpp"
#include "serve/observe/record.hpp"

using peri::serve::Access;
using peri::serve::AccessKey;
using peri::serve::parse_keys;
using peri::serve::read_traceparent;
using peri::serve::TraceContext;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  TraceContext trace;
  const auto zero = [](const auto& id) { return std::all_of(id.begin(), id.end(), [](uint8_t b) { return b == 0; }); };
  if (read_traceparent(text, &trace) && (zero(trace.trace_id) || zero(trace.parent_id))) std::abort();
  Access some(std::vector<AccessKey>{{"the-only-key-there-is", "ann"}});
  if (some.admit(text, true, 0).status == 200 && (text.size() != 28 || !text.ends_with("the-only-key-there-is")))
    std::abort();
  const auto keys = parse_keys(text, "keys");
  if (!keys.ok()) {
    if (keys.error().message.empty()) std::abort();
    return 0;
  }
  if (keys->size() > 1000) return 0;
  Access access(*keys);
  for (const AccessKey& k : *keys) {
    if (k.key.empty() || k.per_second < 0 || k.burst < 0) std::abort();
    if (access.admit("Bearer " + k.key, false, 0).status != 200) std::abort();
    const int status = access.admit("Bearer " + k.key, true, 0).status;
    if (status != 200 && status != 429) std::abort();
    const bool another =
        std::none_of(keys->begin(), keys->end(), [&](const AccessKey& o) { return o.key == k.key + "x"; });
    if (another && access.admit("Bearer " + k.key + "x", false, 0).status != 401) std::abort();
  }
  return 0;
}
