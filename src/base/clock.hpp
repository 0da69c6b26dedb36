// The one place that reads the clock.
#pragma once

#include <cstdint>

namespace peri {

int64_t now_ns();  // monotonic
inline double seconds_since(int64_t start_ns) { return static_cast<double>(now_ns() - start_ns) * 1e-9; }

}  // namespace peri
