// Opens devices by the names that programs and users give them.
#pragma once

#include "device/device.hpp"

namespace peri::device {

// "cuda" for "cuda:1"; the name itself where it has no number.
std::string_view kind_of(std::string_view name);
// The number after the colon; 0 where there is none. kUsage where it is not a number, or the kind has only one device.
Result<int> ordinal_of(std::string_view name);

// "null": with default options and as much memory as the host has; "cuda": the first GPU, or why there is none;
// "cuda:1": that one. kRefused, with the existing names, for any other kind; kUsage, with the existing numbers, for
// another number.
Result<std::shared_ptr<Device>> open_device(std::string_view name);

// Whether it exists, without opening it: the errors of open_device() for a missing one.
Status check_there(std::string_view name);

// The chip of a device and what choices for it depend on: "NVIDIA H200 (132 multiprocessors)". "": it has none, or is
// not on this machine.
std::string chip_at(std::string_view name);

// Whether there may be several devices of a kind, named by numbers.
bool has_numbers(std::string_view kind);

// The device for a kind: `chosen` ("cuda:1") where it is of that kind, else the first of the kind.
std::string which_of(std::string_view kind, std::string_view chosen);

// Whether a device of this name is what a program requires: "cuda" is any GPU, "cuda:1" that one.
bool is_asked_for(std::string_view device, std::string_view asked);

}  // namespace peri::device
