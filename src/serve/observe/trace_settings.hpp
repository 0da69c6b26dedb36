// Which requests are traced: for all models and for some by themselves, in Triton's words, which clients may ask for
// and change while the server runs.
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
  bool possible = false;  // there is a collector; else nothing is traced
  int64_t one_in = 1;     // of requests whose caller says nothing of traces
  int64_t count = -1;     // so many traces in all; -1: without an end
};

// All functions may be called from any thread.
class TraceSettings {
 public:
  explicit TraceSettings(const TraceDefaults& defaults);
  // Whether a request is traced, and counted as such. `caller`: whether the trace that it is a part of is, if it is
  // one's.
  bool take(std::string_view model, std::optional<bool> caller);
  // {"trace_level": [...], ...} of all models ("") or of one.
  std::string text(std::string_view model) const;
  // Some of these members; null takes a model's own setting back, and that of all to what the server was started with.
  // Errors change nothing: kInvalid; kUnsupported for what is not set this way.
  Status update(const std::string& model, const Json& changes);

 private:
  // Nothing: as for all models.
  struct Own {
    std::optional<bool> on;
    std::optional<int64_t> one_in, left;
    uint64_t seen = 0;
  };
  Status change(std::string_view key, const Json& changes, Own* own) const;

  const TraceDefaults defaults_;
  mutable std::mutex mutex_;
  Own all_;  // complete
  std::map<std::string, Own, std::less<>> models_;
};

}  // namespace peri::serve
