// CLOCK_MONOTONIC behind now_ns().
#include "base/clock.hpp"

#include <ctime>

namespace peri {

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

}  // namespace peri
