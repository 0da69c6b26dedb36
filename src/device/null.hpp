// A device without hardware that exposes errors: memory that the host cannot touch, work that runs in a seeded
// order as adverse as stream order and waits allow, and calls that fail on request. Launches run as they are passed
// in.
#pragma once

#include "device/device.hpp"

namespace peri::device {

struct NullOptions {
  Target target = {Kind::kNull, "null", {}, 1, {}, {}};
  uint64_t seed = 0;                       // of the order: the same calls run in the same order
  int64_t memory_bytes = 0;                // of all allocations at once; 0: no limit
  size_t address_bytes = size_t{1} << 40;  // of address space, which costs no memory; less where there is less
  int64_t failing_call = 0;                // the call that fails, counted from 1 (see Counts::calls); 0: none
  int64_t failing_work = 0;                // the copy or launch that fails as it runs, counted from 1; 0: none
};

// An address is one of a range that is reserved and never readable: whoever follows it as a pointer gets SIGSEGV, at
// any time. The bytes stand elsewhere, between guard pages, their end at most 63 bytes before one; at first they are
// 0xff, a NaN or -1; only what is launched sees them. Addresses of freed memory lead nowhere until the range was used
// up.
//
// Work runs in the threads that call, under one lock, some of it as it is enqueued, the rest when someone waits.
Result<std::unique_ptr<Device>> make_null_device(NullOptions options = {});

}  // namespace peri::device
