// Devices by the names that programs give them.
#pragma once

#include "device/device.hpp"

namespace peri::device {

// "null": with default options and as much memory as the host has; "cuda": the first GPU, or why there is none.
// kRefused, with the names that there are, for any other.
Result<std::shared_ptr<Device>> open_device(std::string_view name);

// Whether a device of this name is what a program asks for: "cuda" is any GPU, "cuda:1" that one.
bool is_asked_for(std::string_view device, std::string_view asked);

}  // namespace peri::device
