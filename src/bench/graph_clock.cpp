// Two events around a replay.
#include "bench/graph_clock.hpp"

#include "base/clock.hpp"
#include "device/cuda/cuda.hpp"

namespace peri::bench {

Result<GraphClock> GraphClock::open(device::Device* device, device::Stream* stream) {
  GraphClock out;
  out.stream_ = stream;
  out.gpu_ = dynamic_cast<device::cuda::CudaDevice*>(device);
  if (!out.gpu_) return out;
  PERI_ASSIGN(out.from_, out.gpu_->make_timed_event());
  PERI_ASSIGN(out.to_, out.gpu_->make_timed_event());
  return out;
}

Result<double> GraphClock::replay_ms(const device::Captured& graph) {
  if (!gpu_) {
    PERI_TRY(stream_->synchronize());
    const int64_t start = now_ns();
    PERI_TRY(stream_->replay(graph));
    PERI_TRY(stream_->synchronize());
    return seconds_since(start) * 1e3;
  }
  PERI_TRY(stream_->record(*from_));
  PERI_TRY(stream_->replay(graph));
  PERI_TRY(stream_->record(*to_));
  PERI_TRY(stream_->synchronize());
  return gpu_->milliseconds(*from_, *to_);
}

}  // namespace peri::bench
