// How far what a loop carries from iteration to iteration may grow: a loop without end is an error, before the
// machine's memory is used up.
#pragma once

#include <cstdint>

#include "base/result.hpp"

namespace peri::device {

class Growing {
 public:
  // `most`: bytes at any time. Half of what the machine has available is the limit where that is less, asked once
  // and only where the loop has much.
  explicit Growing(int64_t most) : most_(most) {}

  // The next iteration reads `now` bytes and makes more, as much more as it is expected of one that had `before` and
  // made `now`; `kept` bytes stay beside them. Errors: kMemory.
  Status allows(int64_t before, int64_t now, int64_t kept);

 private:
  int64_t most_;
  bool asked_ = false;
};

}  // namespace peri::device
