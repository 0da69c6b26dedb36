// The device part of a session: streams for its lanes, events between them, one arena per device, pinned host memory
// for copies. Device work is only enqueued; the host waits where one of its own steps reads what a device wrote, and at
// the end of a run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "plan/order.hpp"
#include "runtime/memory.hpp"

namespace peri::runtime {

// Of one device. The work of a segment begins and ends in the first stream.
struct DeviceLanes {
  device::Device* device = nullptr;
  device::Memory arena;
  std::vector<device::Memory> workspaces;                // by lane, of steps that are instantiated during the run
  std::vector<std::unique_ptr<device::Stream>> streams;  // by lane
  std::vector<std::unique_ptr<device::Event>> reached;  // by lane: that of the first starts the others, theirs end them
  std::unique_ptr<device::Event> outer;                 // between the first stream and one of the caller's
  std::string enqueued;                                 // enqueued work not waited for yet, for errors; empty: none
  device::Memory faults;                                // an int32 per step of the program; empty: no step may fault
  device::Pinned fault_words;                           // read back
  bool clean = true;                                    // all of them are known to be 0

  Status settle();  // waits for all work; its error names what was enqueued
  void quiesce();   // waits for all work of all streams, even after errors
  Status write(device::Address to, std::span<const std::byte> bytes) const;
  Status read(std::span<std::byte> to, device::Address from) const;
  // Allocates words for this many steps, all 0. REQUIRES: nothing is enqueued, or its words are allocated.
  Status hold_faults(size_t steps);
  Status clear_faults();  // unless they are known to be 0
};

struct DeviceRun {
  std::vector<plan::Segment> segments;
  std::vector<size_t> lane_of;                       // per step: of its device
  std::vector<std::unique_ptr<device::Event>> done;  // per step: set where another lane waits for it
  std::vector<bool> fixed;              // per buffer that owns memory: a device copies it, or it is on a device
  std::vector<device::Pinned> staging;  // per buffer: inputs of these; then per output port: those on devices
  std::vector<device::Memory> ports;    // per buffer: inputs on a device
  uint32_t resident = plan::kHost;      // the device of all ports
  bool under_way = false;               // enqueued runs that were not waited for
  std::vector<DeviceLanes> lanes;       // per device; the host's is unused
  std::vector<device::Memory> pooled;   // per buffer: data-dependent ones
  std::vector<std::shared_ptr<const Instance>> running;  // instances made during the run, of work not waited for yet
  int64_t captures = 0;

  bool empty() const { return lanes.empty(); }
  // Creates streams and events for the engine's program; nothing if it has no device but the host.
  Status open(const Engine& engine);
};

// Grows memory on a device to at least `bytes`. `placement` is incremented. `what`: "the arena", for errors.
Status grow_on_device(const EngineOptions& options, DeviceLanes* own, device::Memory* memory, size_t bytes,
                      const char* what, uint64_t* placement);

// An error of a device during the enqueueing of step `step`, independent of the device's name for the call.
Error at_step(Error error, const std::string& step);

}  // namespace peri::runtime
