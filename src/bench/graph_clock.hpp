// The replay time of a captured graph: by the device's own events if it keeps times, else by the host's clock.
#pragma once

#include <memory>

#include "device/device.hpp"

namespace peri::device::cuda {
class CudaDevice;
}

namespace peri::bench {

class GraphClock {
 public:
  // REQUIRES: the stream is the device's; both outlive the clock.
  static Result<GraphClock> open(device::Device* device, device::Stream* stream);
  // Replays and waits. Earlier work in the stream is not counted.
  Result<double> replay_ms(const device::Captured& graph);

 private:
  device::Stream* stream_ = nullptr;
  device::cuda::CudaDevice* gpu_ = nullptr;  // null: no device clock
  std::unique_ptr<device::Event> from_, to_;
};

}  // namespace peri::bench
