// Blocks of host memory by address.
#include "device/host.hpp"

#include <cstdlib>
#include <mutex>

#include "device/queue_device.hpp"

namespace peri::device {

namespace {
constexpr size_t kAlign = 256;

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};
struct Block {
  std::unique_ptr<std::byte, Free> data;
  size_t bytes = 0;
};

class HostStore final : public Store {
 public:
  Result<Address> take(size_t bytes) override {
    const std::lock_guard<std::mutex> lock(lock_);
    const size_t room = bytes / kAlign * kAlign + kAlign;
    std::unique_ptr<std::byte, Free> data(room < bytes ? nullptr
                                                       : static_cast<std::byte*>(std::aligned_alloc(kAlign, room)));
    if (!data) return Error(ErrorKind::kMemory, format("the host has no %zu bytes", bytes));
    const uint64_t at = reinterpret_cast<uintptr_t>(data.get());
    blocks_[at] = {std::move(data), bytes};
    return Address{at};
  }
  size_t give_back(Address address) override {
    const std::lock_guard<std::mutex> lock(lock_);
    return blocks_.extract(address.value).mapped().bytes;
  }
  MemoryInfo info() const override { return host_memory(); }
  Result<std::byte*> at(Address address, size_t bytes) const override {
    const std::lock_guard<std::mutex> lock(lock_);
    auto after = blocks_.upper_bound(address.value);
    if (after == blocks_.begin()) return invalid("no memory of the device is there");
    const auto& [begin, block] = *--after;
    const uint64_t offset = address.value - begin;
    if (offset > block.bytes || bytes > block.bytes - offset)
      return invalid("%zu bytes at offset %llu of an allocation of %zu", bytes, static_cast<unsigned long long>(offset),
                     block.bytes);
    return block.data.get() + offset;
  }
  std::byte* host_pointer(Address address) const override {
    auto there = at(address, 0);
    return there.ok() ? *there : nullptr;
  }

 private:
  mutable std::mutex lock_;
  std::map<uint64_t, Block> blocks_;
};
}  // namespace

std::unique_ptr<Device> make_host_device(Target target) {
  return make_queue_device({"host", std::move(target), {true, 0, 0}, 0}, std::make_unique<HostStore>());
}

}  // namespace peri::device
