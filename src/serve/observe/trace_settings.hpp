// Which requests are traced, for all models and for single ones: settings named as in Triton, which clients may read
// and change at run time.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.hpp"

namespace peri::serve {

struct TraceDefaults {
  bool possible = false;  // whether there is a collector; otherwise nothing is traced
  int64_t one_in = 1;     // of requests without a traceparent, one in this many is traced
  int64_t count = -1;     // limit of traces; -1: unlimited
};

// Thread-safe.
class TraceSettings {
 public:
  explicit TraceSettings(const TraceDefaults& defaults);
  // Whether to trace a request; if so it is counted. `caller`: the sampling flag of its traceparent, if it has one.
  bool take(std::string_view model, std::optional<bool> caller);
  // {"trace_level": [...], ...} of all models ("") or of one.
  std::string text(std::string_view model) const;
  // Changes the given members; null resets a model's setting to that for all models, and that for all models to its
  // value at the start. Errors leave all unchanged: kInvalid; kUnsupported: cannot be changed at run time.
  Status update(const std::string& model, const Json& changes);

 private:
  // Unset: as for all models.
  struct Own {
    std::optional<bool> on;
    std::optional<int64_t> one_in, left;
    uint64_t seen = 0;
  };
  Status change(std::string_view key, const Json& changes, Own* own) const;

  const TraceDefaults defaults_;
  mutable std::mutex mutex_;
  Own all_;  // every member is set
  std::map<std::string, Own, std::less<>> models_;
};

}  // namespace peri::serve
