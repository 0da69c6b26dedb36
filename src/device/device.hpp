// The interface to a device: memory, streams of copies and launches, events between them, and captures that are
// replayed. Enqueued work runs later, in the order of its stream and after what it waits for; nothing else orders
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "device/memory_info.hpp"
#include "device/target.hpp"

namespace peri::device {

// An address in a device's memory. Offsets within one allocation may be added; it is not a pointer that the host may
// dereference (but see Device::host_pointer).
struct Address {
  uint64_t value = 0;
  bool operator==(const Address&) const = default;
  friend Address operator+(Address a, uint64_t bytes) { return {a.value + bytes}; }
};

class Device;

// Memory of a device, freed with this object. REQUIRES: the device outlives it, and no enqueued work uses it when it is
// destroyed.
class Memory {
 public:
  Memory() = default;
  Memory(Device* device, Address address, size_t bytes) : device_(device), address_(address), bytes_(bytes) {}
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();
  Address address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  Address address_;
  size_t bytes_ = 0;
};

// Host memory that a device copies without staging. It is returned to the device with this object; the device outlives
// it.
class Pinned {
 public:
  Pinned() = default;
  Pinned(std::span<std::byte> bytes, std::function<void()> give_back)
      : bytes_(bytes), give_back_(std::move(give_back)) {}
  Pinned(Pinned&& other) noexcept { *this = std::move(other); }
  Pinned& operator=(Pinned&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(give_back_, other.give_back_);
    return *this;
  }
  ~Pinned() {
    if (give_back_) give_back_();
  }
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
  std::function<void()> give_back_;
};

// One argument of a launch: a range within one allocation.
struct Argument {
  Address address;
  size_t bytes = 0;
};

// The driver's queue for work that uses it directly, and the launch's arguments.
struct NativeQueue {
  void* queue = nullptr;  // a CUstream
  std::span<const Argument> arguments;
};

// Work given as a function. It gets the bytes of its arguments as accessible where it runs, in their order. It may run
// on any thread; it must not call the device; its error is the stream's.
//
// A device with a driver's queues calls `enqueue` instead: once, by launch() itself; it enqueues its work and waits for
// nothing. Each device refuses a launch without its form (kUnsupported).
struct Launch {
  std::string name;  // used in errors
  std::function<Status(std::span<const std::span<std::byte>> arguments)> function;
  std::vector<Argument> arguments;
  std::function<Status(const NativeQueue&)> enqueue = nullptr;
};

// A point in the work of a stream. Recorded again it refers to the newer point, for later waits.
class Event {
 public:
  explicit Event(const Device* owner) : owner_(owner) {}
  virtual ~Event() = default;
  const Device* owner() const { return owner_; }
  // Returns when the work before the last record is complete, with its stream's error. Not recorded, or recorded in a
  // capture: kInvalid.
  virtual Status synchronize() = 0;

 private:
  const Device* owner_;
};

// Work enqueued while a stream captured: that of all streams that joined, and its order.
class Captured {
 public:
  explicit Captured(const Device* owner) : owner_(owner) {}
  virtual ~Captured() = default;
  const Device* owner() const { return owner_; }
  virtual size_t size() const = 0;  // copies and launches

 private:
  const Device* owner_;
};

// An ordered queue of work. One thread at a time; different streams may be used by different threads concurrently.
// Calls return before the work is complete, and host memory that they refer to must stay valid until then.
//
// An error that occurs while work runs is returned by the next synchronize() of the stream or the device (once); until
// then later work is skipped. It propagates to streams that wait for an event after it.
//
// Destroying a stream waits for its work.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Status copy_in(Address to, std::span<const std::byte> from) = 0;  // host to device
  virtual Status copy_out(std::span<std::byte> to, Address from) = 0;       // device to host
  virtual Status copy(Address to, Address from, size_t bytes) = 0;          // within the device; no overlap
  virtual Status launch(Launch launch) = 0;
  virtual Status record(Event& event) = 0;
  // Work enqueued from here on runs after that point. kInvalid: the event was never recorded.
  virtual Status wait(const Event& event) = 0;

  // From here on work is recorded and not run. Another stream that waits for an event recorded in the capture joins it
  // until it ends, and this stream must wait for it before that. Streams in a capture must not synchronize or wait for
  // work outside it, nor the reverse: kInvalid.
  virtual Status begin_capture() = 0;
  // Ends the capture, also on an error: the recorded work is then discarded.
  virtual Result<std::unique_ptr<Captured>> end_capture() = 0;
  // Whether other work of the process spoilt the last capture (a thread that waited for the whole device, say), so that
  // the same work can be captured again: see capture().
  virtual bool capture_spoilt() const { return false; }
  // Enqueues all captured work, after the current work of this stream, with the same addresses, and the host memory's
  // contents at that time. `captured` may be destroyed before it ran. Not within a capture.
  virtual Status replay(const Captured& captured) = 0;

  // Returns when all enqueued work is complete.
  virtual Status synchronize() = 0;
};

// Counts of operations since the device was opened; for tests and reports.
struct Counts {
  int64_t calls = 0;  // of all functions that may fail
  int64_t allocations = 0, live = 0, live_bytes = 0, most_bytes = 0;
  int64_t copies = 0, launches = 0, replays = 0;  // executed, including those of replays
};

// Thread-safe. It outlives its memory, streams and events; those of another device are kInvalid.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;  // "host", "null"
  virtual const Target& target() const = 0;
  virtual MemoryInfo memory() const = 0;
  virtual Counts counts() const = 0;

  // At least 256-byte aligned; contents are undefined. 0 bytes have an address too. Errors: kMemory.
  virtual Result<Memory> allocate(size_t bytes) = 0;
  virtual Result<std::unique_ptr<Stream>> make_stream() = 0;
  virtual Result<std::unique_ptr<Event>> make_event() = 0;
  // Waits for all streams.
  virtual Status synchronize() = 0;
  // The host's pointer to an address, where both share memory; else null.
  virtual std::byte* host_pointer(Address address) const = 0;

  // At least 64-byte aligned; a device without such memory returns ordinary host memory. Errors: kMemory.
  virtual Result<Pinned> pinned(size_t bytes);
  // An event that records the time; it costs a little more than one of make_event(). kUnsupported: there is no clock.
  virtual Result<std::unique_ptr<Event>> make_timed_event();
  // Between two timed events that are complete. kInvalid for others.
  virtual Result<double> milliseconds(const Event& from, const Event& to);
  // Memory of the caller on this device, so that copies and launches may use it for the lifetime of the result; it is
  // not freed. kInvalid where it is not memory of this device.
  virtual Result<Memory> lend(Address address, size_t bytes);
  // A stream of the caller, in the driver's form (a CUstream), for waits between it and streams of this device. It must
  // outlive the result. kUnsupported: the device has no such streams.
  virtual Result<std::unique_ptr<Stream>> lend_stream(void* queue);

 private:
  friend class Memory;
  virtual void release(Address address) = 0;
};

}  // namespace peri::device
