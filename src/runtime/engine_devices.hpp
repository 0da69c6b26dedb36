// The devices that an engine's program names, and its weights in their memory.
#pragma once

#include <memory>
#include <vector>

#include "device/device.hpp"

namespace peri::runtime {

class Engine;

class EngineDevices {
 public:
  // Finds or opens each device of the program's table and brings the weights there that its buffers name.
  Status open(const Engine& engine);
  device::Device* at(uint32_t index) const { return index < devices_.size() ? devices_[index].get() : nullptr; }
  device::Address weight(size_t buffer) const { return weights_[buffer]; }

 private:
  Status upload(const Engine& engine, uint32_t index);
  std::vector<std::shared_ptr<device::Device>> devices_;  // the host's is null
  std::vector<device::Memory> memory_;
  std::vector<device::Address> weights_;  // per buffer
};

}  // namespace peri::runtime
