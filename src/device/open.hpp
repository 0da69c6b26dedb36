// Devices by the names that programs give them.
#pragma once

#include "device/device.hpp"

namespace peri::device {

// "null": with default options and as much memory as the host has; "cuda": the first GPU, or why there is none.
// kRefused, with the names that there are, for any other.
Result<std::shared_ptr<Device>> open_device(std::string_view name);

}  // namespace peri::device
