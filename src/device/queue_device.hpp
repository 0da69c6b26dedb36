// A device whose work this process runs itself: streams of a Schedule over a Store. The host and the null device differ
// only in these two.
#pragma once

#include "device/schedule.hpp"

namespace peri::device {

struct QueueOptions {
  std::string name;
  Target target;
  Order order;
  int64_t failing_call = 0;  // the call that fails, counted from 1; 0: none
};
std::unique_ptr<Device> make_queue_device(QueueOptions options, std::unique_ptr<Store> store);

}  // namespace peri::device
