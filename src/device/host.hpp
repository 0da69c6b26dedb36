// The host as a device: plain memory that both sides can access; work is done as it is enqueued, in the calling thread.
#pragma once

#include "device/device.hpp"

namespace peri::device {

// Different streams may be used, and run, concurrently by different threads.
std::unique_ptr<Device> make_host_device(Target target = this_cpu());

}  // namespace peri::device
