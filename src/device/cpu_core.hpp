// Properties of a core of this CPU that ceilings need and plans do not.
#pragma once

namespace peri::device {

struct CpuCore {
  bool amd = false;       // has separate units for additions
  bool tiles = false;     // has tile products (AMX)
  double stated_ghz = 0;  // the highest clock that the chip reports (leaf 16H); 0: it does not
};
// Detected at each call; thread-safe.
CpuCore cpu_core();

}  // namespace peri::device
