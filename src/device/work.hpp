// Work as data: what a stream enqueues, how it runs on a memory, and the order of its captured pieces.
#pragma once

#include <map>
#include <optional>

#include "device/device.hpp"

namespace peri::device {

// The memory behind addresses. at() is called while work runs, by one thread at a time unless the device runs in order.
class Store {
 public:
  virtual ~Store() = default;
  virtual Result<Address> take(size_t bytes) = 0;  // kMemory
  virtual size_t give_back(Address address) = 0;   // returns the bytes that were allocated
  virtual MemoryInfo info() const = 0;
  // The bytes of a range as the device accesses them. kInvalid unless the range lies within one live allocation.
  virtual Result<std::byte*> at(Address address, size_t bytes) const = 0;
  virtual std::byte* host_pointer(Address address) const = 0;
};

// A point in the work, set by a record. Until it is done it may only be read under the device's lock.
struct Point {
  bool done = false;
  int64_t at_ns = 0;  // when it was reached
  std::optional<Error> error;
};

struct Recorded;

// One entry of a stream.
struct Item {
  enum class Kind : uint8_t { kCopyIn, kCopyOut, kCopy, kLaunch, kRecord, kWait, kReplay };
  Kind kind = Kind::kLaunch;
  Address to, from;
  const std::byte* host_from = nullptr;
  std::byte* host_to = nullptr;
  size_t bytes = 0;
  std::shared_ptr<const Launch> launch;
  std::shared_ptr<Point> point;               // of a record or wait outside a capture
  size_t captured_point = 0;                  // inside a capture: an index into each replay's points
  std::shared_ptr<const Recorded> recording;  // of a replay

  bool is_work() const { return kind <= Kind::kLaunch; }
};
// Runs a copy or launch.
Status run_work(const Item& item, const Store& store);
// "launch 'name'", "copy to the host": for errors.
std::string item_name(const Item& item);

// The contents of a capture: a lane for each participating stream.
struct Recorded {
  std::vector<std::vector<Item>> lanes;
  size_t points = 0;
};

// A replay of it in progress.
struct Replay {
  std::shared_ptr<const Recorded> recording;
  std::vector<size_t> next;  // of each lane
  std::vector<bool> reached;
  std::optional<Error> error;  // the first; later work is skipped

  explicit Replay(std::shared_ptr<const Recorded> r)
      : recording(std::move(r)), next(recording->lanes.size()), reached(recording->points) {}
  bool over() const;
  // The item of a lane that may run now; null: none is left, or it waits.
  const Item* ready(size_t lane) const;
  // Completes a lane's item after it ran, or at once for records and waits.
  void pass(size_t lane);
};

}  // namespace peri::device
