// The first error that permanently disables a device is stored until the process ends: no call makes that device work
// again in this process, only a new process does.
#pragma once

#include <optional>

#include "base/result.hpp"

namespace peri::device {

// The error that disabled the first of them; none: all work. Thread-safe and cheap.
std::optional<Error> lost_device();
// Stores the error for lost_device(), if it is the first.
void note_lost_device(const Error& error);

}  // namespace peri::device
