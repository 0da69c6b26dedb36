// The devices that an engine's program names, and the weights in their memory.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "plan/program.hpp"

namespace peri::runtime {

class Engine;
class Instance;

class EngineDevices {
 public:
  // Finds or opens each device of the program's table.
  Status open(const Engine& engine);
  // As Engine::bring_weights() and Engine::weights_to_bring().
  Status bring(const Engine& engine, std::span<const std::shared_ptr<const Instance>> instances);
  Result<std::vector<int64_t>> to_bring(const Engine& engine,
                                        std::span<const std::shared_ptr<const Instance>> instances) const;
  device::Device* at(uint32_t index) const { return index < devices_.size() ? devices_[index].get() : nullptr; }
  device::Address weight(size_t buffer) const {
    const std::lock_guard<std::mutex> lock(lock_);
    return weights_[buffer];
  }

 private:
  // Per device, the weight buffers that these instances read there and that are not uploaded yet.
  std::vector<std::set<size_t>> wanted(const plan::Program& program,
                                       std::span<const std::shared_ptr<const Instance>> instances) const;
  Status upload(const Engine& engine, uint32_t index, const std::set<size_t>& wanted);
  std::vector<std::shared_ptr<device::Device>> devices_;  // null for the host
  mutable std::mutex lock_;                               // of all below
  std::vector<device::Memory> memory_;
  std::vector<device::Address> weights_;  // per buffer
  // Per device, weights that share a block of the file: keyed by its address and size; those without a file by their
  // own.
  std::vector<std::map<std::pair<const void*, size_t>, device::Address>> blocks_;
  int64_t bytes_ = 0;
};

}  // namespace peri::runtime
