// A short digest of device memory: sums over all words and their positions, computed there, and elements selected from
// it.
#pragma once

#include <memory>

#include "device/device.hpp"

namespace peri::tune {

class Checksums {
 public:
  // kUnsupported for a device without a kernel for it: bytes must then be read and compared.
  static Result<std::unique_ptr<Checksums>> open(device::Device* device);
  virtual ~Checksums() = default;
  // For each range, 4-byte aligned, at this moment; two that differ give different sums with a probability of 1 -
  // 2^-64. Waits for the device.
  virtual Result<std::vector<uint64_t>> of(std::span<const device::Argument> ranges) = 0;
  // The elements, of the given size, at these positions of a range, concatenated.
  virtual Result<std::vector<std::byte>> pick(device::Argument range, size_t element_bytes,
                                              std::span<const int64_t> positions) = 0;
};

}  // namespace peri::tune
