// The only module that reads the clock.
#pragma once

#include <cstdint>
#include <string>

namespace peri {

int64_t now_ns();                       // monotonic
int64_t wall_seconds();                 // since the epoch, for records that are read on other days
std::string utc_text(int64_t seconds);  // "2026-11-22T11:09:56Z"
inline double seconds_since(int64_t start_ns) { return static_cast<double>(now_ns() - start_ns) * 1e-9; }

}  // namespace peri
