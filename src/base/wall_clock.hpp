// The time of day in full, for records that other programs put beside their own.
#pragma once

#include <cstdint>

namespace peri {

int64_t wall_ns();  // of the epoch

}  // namespace peri
