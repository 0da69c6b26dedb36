// The time of day in nanoseconds, for records that other programs merge with their own.
#pragma once

#include <cstdint>

namespace peri {

int64_t wall_ns();  // of the epoch

}  // namespace peri
