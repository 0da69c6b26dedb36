// The cost of copying a value from the host to a device or back, waiting included: the price of a change of place.
#pragma once

#include <string>

#include "base/json.hpp"

namespace peri::device {
class Device;
}

namespace peri::tune {

struct Crossing {
  // Defaults until measured: a host's wait for a GPU, and the rate of unpinned memory over PCI Express 4.
  double wait_ms = 0.02, bytes_per_ms = 6e6;
  bool measured = false;
  double ms(double bytes) const { return wait_ms + bytes / bytes_per_ms; }
  bool operator==(const Crossing&) const = default;
};

// Medians of copies both ways of a small value and a large one. Errors: those of the device.
Result<Crossing> measure_crossing(device::Device* device);

std::string crossing_text(const Crossing& crossing);
Result<Crossing> read_crossing(const Json& json);

}  // namespace peri::tune
