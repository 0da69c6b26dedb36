// A device without hardware that exposes errors: memory that the host cannot access, work that runs in a seeded order
// as adverse as stream order and waits allow, and calls that fail on request. Launches run as they are passed in.
#pragma once

#include "device/device.hpp"

namespace peri::device {

struct NullOptions {
  Target target = {Kind::kNull, "null", {}, 1, {}, {}};
  uint64_t seed = 0;                       // of the order: the same calls run in the same order
  int64_t memory_bytes = 0;                // of all allocations at once; 0: no limit
  size_t address_bytes = size_t{1} << 40;  // of address space, which costs no memory; less where the system has less
  int64_t failing_call = 0;                // the call that fails, counted from 1 (see Counts::calls); 0: none
  int64_t failing_work = 0;                // the copy or launch that fails as it runs, counted from 1; 0: none
};

// Addresses come from a reserved range that is never readable: dereferencing one gives SIGSEGV, at any time. The bytes
// are stored elsewhere, between guard pages, ending at most 63 bytes before one; they are initialised to 0xff, a NaN or
// -1; only launches access them. Addresses of freed memory stay invalid until the range is used up.
//
// Work runs in the calling threads, under one lock, some of it when it is enqueued, the rest when a caller waits.
Result<std::unique_ptr<Device>> make_null_device(NullOptions options = {});

}  // namespace peri::device
