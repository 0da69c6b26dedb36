// Two places per allocation: the address, in pages that are not accessible, and the bytes, which no address reveals.
#include "device/null.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <mutex>

#include "device/queue_device.hpp"

namespace peri::device {

namespace {
constexpr size_t kEndAlign = 64;
constexpr int kUnwritten = 0xff;

size_t page_bytes() {
  static const auto kBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return kBytes;
}
size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// Pages that go with this object. PROT_NONE at first.
class Pages {
 public:
  Pages() = default;
  static Pages reserve(size_t bytes) {
    void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    Pages out;
    if (at != MAP_FAILED) {
      out.data_ = static_cast<std::byte*>(at);
      out.bytes_ = bytes;
    }
    return out;
  }
  Pages(Pages&& other) noexcept { *this = std::move(other); }
  Pages& operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Pages() {
    if (data_) munmap(data_, bytes_);
  }
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

struct Block {
  size_t bytes = 0, taken = 0;  // asked for; of address space
  Pages pages;
  std::byte* data = nullptr;
};

Error no_memory(size_t bytes, const char* why) {
  return Error(ErrorKind::kMemory, format("the null device has no %zu bytes: %s", bytes, why));
}

class NullStore final : public Store {
 public:
  NullStore(Pages addresses, int64_t limit)
      : addresses_(std::move(addresses)), limit_(limit > 0 ? static_cast<size_t>(limit) : addresses_.bytes()) {}

  Result<Address> take(size_t bytes) override {
    const std::lock_guard<std::mutex> lock(lock_);
    if (bytes > limit_ - used_) return no_memory(bytes, "its memory is taken");
    const size_t page = page_bytes(), room = round_up(bytes, kEndAlign), body = round_up(room, page);
    Block block;
    block.bytes = bytes;
    block.taken = body + page;  // a page apart, so that no offset reaches the next
    const std::optional<uint64_t> at = find_room(block.taken);
    if (!at) return no_memory(bytes, "its addresses are used up");
    block.pages = Pages::reserve(body + 2 * page);
    if (!block.pages.data() || (body > 0 && mprotect(block.pages.data() + page, body, PROT_READ | PROT_WRITE) != 0))
      return no_memory(bytes, "the host has none");
    block.data = block.pages.data() + page + body - room;
    std::memset(block.pages.data() + page, kUnwritten, body);
    used_ += bytes;
    blocks_.emplace(*at, std::move(block));
    next_ = *at + blocks_.at(*at).taken;
    return Address{base() + *at};
  }

  size_t give_back(Address address) override {
    const std::lock_guard<std::mutex> lock(lock_);
    const size_t bytes = blocks_.extract(address.value - base()).mapped().bytes;
    used_ -= bytes;
    return bytes;
  }

  MemoryInfo info() const override {
    const std::lock_guard<std::mutex> lock(lock_);
    return {static_cast<int64_t>(limit_), static_cast<int64_t>(limit_ - used_)};
  }

  Result<std::byte*> at(Address address, size_t bytes) const override {
    const std::lock_guard<std::mutex> lock(lock_);
    const uint64_t place = address.value - base();
    auto after = blocks_.upper_bound(place);
    if (address.value < base() || place >= addresses_.bytes() || after == blocks_.begin())
      return invalid("no memory of the device is there");
    const auto& [begin, block] = *--after;
    const uint64_t offset = place - begin;
    if (offset >= block.taken) return invalid("no memory of the device is there, or it was given back");
    if (offset > block.bytes || bytes > block.bytes - offset)
      return invalid("%zu bytes at offset %llu of an allocation of %zu", bytes, static_cast<unsigned long long>(offset),
                     block.bytes);
    return block.data + offset;
  }

  std::byte* host_pointer(Address) const override { return nullptr; }

 private:
  uint64_t base() const { return reinterpret_cast<uintptr_t>(addresses_.data()); }

  // A gap in the addresses, from the last allocation on and then from the start; whole pages.
  std::optional<uint64_t> find_room(size_t bytes) const {
    if (bytes > addresses_.bytes()) return std::nullopt;
    for (const bool again : {false, true}) {
      uint64_t at = again ? 0 : next_;
      for (auto it = blocks_.lower_bound(at); it != blocks_.end() && it->first < at + bytes; ++it)
        at = it->first + it->second.taken;
      if (at + bytes <= addresses_.bytes()) return at;
    }
    return std::nullopt;
  }

  mutable std::mutex lock_;
  Pages addresses_;
  size_t limit_, used_ = 0;
  uint64_t next_ = 0;
  std::map<uint64_t, Block> blocks_;  // by offset in the addresses
};
}  // namespace

Result<std::unique_ptr<Device>> make_null_device(NullOptions options) {
  Pages addresses;
  for (size_t bytes = options.address_bytes; !addresses.data() && bytes >= page_bytes(); bytes /= 2)
    addresses = Pages::reserve(bytes / page_bytes() * page_bytes());
  if (!addresses.data()) return no_memory(options.address_bytes, "no such range of addresses");
  auto store = std::make_unique<NullStore>(std::move(addresses), options.memory_bytes);
  return make_queue_device(
      {"null", std::move(options.target), {false, options.seed, options.failing_work}, options.failing_call},
      std::move(store));
}

}  // namespace peri::device
