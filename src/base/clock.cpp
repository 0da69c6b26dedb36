// CLOCK_MONOTONIC behind now_ns(), CLOCK_REALTIME behind what is written down.
#include "base/clock.hpp"

#include <ctime>

#include "base/wall_clock.hpp"

namespace peri {

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

int64_t wall_ns() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

int64_t wall_seconds() { return wall_ns() / 1000000000; }

std::string utc_text(int64_t seconds) {
  const time_t when = seconds;
  tm parts = {};
  char text[32] = "";
  if (gmtime_r(&when, &parts)) std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace peri
