// Opens devices by the names that programs and users give them.
#pragma once

#include "device/device.hpp"

namespace peri::device {

// "cuda" of "cuda:1"; the name itself where it has no number.
std::string_view kind_of(std::string_view name);
// The number behind the colon; 0 where there is none. kUsage where it is no number, or the kind has one device alone.
Result<int> ordinal_of(std::string_view name);

// "null": with default options and as much memory as the host has; "cuda": the first GPU, or why there is none;
// "cuda:1": that one. kRefused, with the names that there are, for any other kind; kUsage, with those that there are,
// for another number.
Result<std::shared_ptr<Device>> open_device(std::string_view name);

// Whether it is there, without opening it: the errors of open_device() that say it is not.
Status check_there(std::string_view name);

// The one that is meant by a kind: `chosen` ("cuda:1") where it is of that kind, else the kind itself, its first.
std::string which_of(std::string_view kind, std::string_view chosen);

// Whether a device of this name is what a program asks for: "cuda" is any GPU, "cuda:1" that one.
bool is_asked_for(std::string_view device, std::string_view asked);

}  // namespace peri::device
