// The first error that ends a device for good is kept until the process ends: no call makes that device work again in
// this process, only a new process does.
#pragma once

#include <optional>

#include "base/result.hpp"

namespace peri::device {

// The error by which the first of them ended; none: they all work. Any thread, and at little cost.
std::optional<Error> lost_device();
// Kept for lost_device(), if it is the first.
void note_lost_device(const Error& error);

}  // namespace peri::device
