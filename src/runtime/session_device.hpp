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

// Of one device. Work of a segment begins and ends in the first stream.
struct DeviceLanes {
  device::Device* device = nullptr;
  device::Memory arena;
  std::vector<device::Memory> workspaces;                // by lane, of steps that are made while running
  std::vector<std::unique_ptr<device::Stream>> streams;  // by lane
  std::vector<std::unique_ptr<device::Event>>
      reached;                           // by lane: the first says when the others begin, they when they end
  std::unique_ptr<device::Event> outer;  // between the first stream and one of the caller's
  std::string enqueued;                  // what nobody has waited for yet, for errors; empty: nothing
  device::Memory faults;                 // an int32 a step of the program; none: no step leaves anything
  device::Pinned fault_words;            // read back
  bool clean = true;                     // all of them are 0, as far as is known

  Status settle();  // waits for all work; its error names what was enqueued
  void quiesce();   // waits for all work of all streams, whatever became of it
  Status write(device::Address to, std::span<const std::byte> bytes) const;
  Status read(std::span<std::byte> to, device::Address from) const;
  // Room for the words of so many steps, all 0. REQUIRES: nothing is enqueued, or its words are there.
  Status hold_faults(size_t steps);
  Status clear_faults();  // where they are not known to be 0
};

struct DeviceRun {
  std::vector<plan::Segment> segments;
  std::vector<size_t> lane_of;                       // per step: of its device
  std::vector<std::unique_ptr<device::Event>> done;  // per step: set where another lane waits for it
  std::vector<bool> fixed;              // per buffer that owns memory: a device copies it, or it lies there
  std::vector<device::Pinned> staging;  // per buffer: inputs of these; per output port behind them: what lies there
  std::vector<device::Memory> ports;    // per buffer: inputs that lie on a device
  uint32_t resident = plan::kHost;      // the device that all ports lie on
  bool under_way = false;               // runs were enqueued that nobody has waited for
  std::vector<DeviceLanes> lanes;       // per device; the host's is unused
  std::vector<device::Memory> pooled;   // per buffer: data-dependent ones
  std::vector<std::shared_ptr<const Instance>> running;  // made while running, of work that is not waited for yet
  int64_t captures = 0;

  bool empty() const { return lanes.empty(); }
  // Streams and events for the engine's program; nothing where it has no device but the host.
  Status open(const Engine& engine);
};

// Makes room of at least `bytes` on a device; it only grows. `placement` counts. `what`: "the arena", for errors.
Status grow_on_device(const EngineOptions& options, DeviceLanes* own, device::Memory* memory, size_t bytes,
                      const char* what, uint64_t* placement);

// An error of a device while it was handed step `step`, whatever the device called the call.
Error at_step(Error error, const std::string& step);

}  // namespace peri::runtime
