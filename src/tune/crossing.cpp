// Copies timed by the host's clock, as a host step that waits for them sees it.
#include "tune/crossing.hpp"

#include <algorithm>
#include <vector>

#include "bench/measure.hpp"
#include "device/device.hpp"

namespace peri::tune {

namespace {
constexpr size_t kSmall = 4 << 10, kLarge = 8 << 20;   // nearly all latency, nearly all rate
constexpr int kRounds = 9;                             // odd: their median is one of them
constexpr double kMinMs = 1e-4, kMaxBytesPerMs = 1e9;  // beyond what any link does

// The median of a copy in or out, in turn, of so many bytes.
Result<double> copy_ms(device::Device* device, device::Stream* stream, size_t bytes) {
  PERI_ASSIGN(const device::Memory there, device->allocate(bytes));
  std::vector<std::byte> here(bytes, std::byte{1});
  bool inwards = false;
  PERI_ASSIGN(
      std::vector<double> ms,
      bench::time_runs({.warm_up_seconds = 0, .seconds = 0, .min_samples = 2 * kRounds, .max_samples = 2 * kRounds},
                       [&]() -> Status {
                         inwards = !inwards;
                         PERI_TRY(inwards ? stream->copy_in(there.address(), here)
                                          : stream->copy_out(here, there.address()));
                         return stream->synchronize();
                       }));
  std::nth_element(ms.begin(), ms.begin() + kRounds, ms.end());
  return ms[kRounds];
}
}  // namespace

Result<Crossing> measure_crossing(device::Device* device) {
  PERI_ASSIGN(const std::unique_ptr<device::Stream> stream, device->make_stream());
  PERI_ASSIGN(const double small, copy_ms(device, stream.get(), kSmall));
  PERI_ASSIGN(const double large, copy_ms(device, stream.get(), kLarge));
  const double rate = static_cast<double>(kLarge - kSmall) / std::max(large - small, kMinMs);
  return Crossing{std::max(small, kMinMs), std::min(rate, kMaxBytesPerMs), true};
}

std::string crossing_text(const Crossing& c) {
  JsonWriter w;
  w.begin_object().field("wait_ms", c.wait_ms).field("bytes_per_ms", c.bytes_per_ms).end_object();
  return w.take();
}

Result<Crossing> read_crossing(const Json& json) {
  Crossing c;
  PERI_ASSIGN(c.wait_ms, json.get_double("wait_ms"));
  PERI_ASSIGN(c.bytes_per_ms, json.get_double("bytes_per_ms"));
  c.measured = true;
  if (!(c.wait_ms >= 0) || !(c.bytes_per_ms > 0) || c.bytes_per_ms > kMaxBytesPerMs)
    return invalid("a copy that takes no time");
  return c;
}

}  // namespace peri::tune
