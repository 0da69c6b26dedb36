// Devices by the names that programs and people give them.
#pragma once

#include "device/device.hpp"

namespace peri::device {

// "cuda" of "cuda:1"; the name itself where it has no number.
std::string_view kind_of(std::string_view name);
// The number behind the colon; 0 where there is none. kUsage where it is no number.
Result<int> ordinal_of(std::string_view name);

// "null": with default options and as much memory as the host has; "cuda": the first GPU, or why there is none;
// "cuda:1": that one. kRefused, with the names that there are, for any other kind; kUsage, with those that there are,
// for another number.
Result<std::shared_ptr<Device>> open_device(std::string_view name);

}  // namespace peri::device
