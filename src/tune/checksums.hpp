// A short digest of device memory: sums over all words and their positions, computed there, and elements selected from
// it.
#pragma once

#include <memory>

#include "device/device.hpp"

namespace peri::tune {

class Checksums {
 public:
  // kUnsupported for a device that has no kernel for it: then bytes have to be read and compared.
  static Result<std::unique_ptr<Checksums>> open(device::Device* device);
  virtual ~Checksums() = default;
  // Of each range, 4-byte aligned, at this moment; two that differ in a few bits give other sums but for one chance in
  // 2^64. Waits for the device.
  virtual Result<std::vector<uint64_t>> of(std::span<const device::Argument> ranges) = 0;
  // The elements at these positions of a range of elements of so many bytes, one after the other.
  virtual Result<std::vector<std::byte>> pick(device::Argument range, size_t element_bytes,
                                              std::span<const int64_t> positions) = 0;
};

}  // namespace peri::tune
