// Properties of a core of this CPU that ceilings need and plans do not.
#pragma once

namespace peri::device {

struct CpuCore {
  bool amd = false;       // units for additions beside those for multiply-adds
  bool tiles = false;     // products of tiles (AMX)
  double stated_ghz = 0;  // the highest clock that the chip states (leaf 16H); 0: it does not say
};
// Asked at each call; any thread.
CpuCore cpu_core();

}  // namespace peri::device
