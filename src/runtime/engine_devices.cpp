// Opening, and one copy of each weight a device.
#include "runtime/engine_devices.hpp"

#include <algorithm>
#include <map>

#include "device/open.hpp"
#include "runtime/engine.hpp"

namespace peri::runtime {

Status EngineDevices::open(const Engine& engine) {
  const plan::Program& p = engine.program();
  devices_.resize(p.devices.size());
  weights_.resize(p.devices.size() > 1 ? p.buffers.size() : 0);
  for (uint32_t d = 1; d < p.devices.size(); ++d) {
    const auto& given = engine.options().devices;
    const auto it = std::find_if(given.begin(), given.end(),
                                 [&](const auto& x) { return device::is_asked_for(x->name(), p.devices[d]); });
    if (it != given.end()) {
      devices_[d] = *it;
    } else {
      PERI_ASSIGN(devices_[d], device::open_device(p.devices[d]));
    }
    PERI_TRY(upload(engine, d));
  }
  return Ok{};
}

Status EngineDevices::upload(const Engine& engine, uint32_t index) {
  const plan::Program& p = engine.program();
  std::map<std::pair<const void*, size_t>, device::Address> done;  // weights that share a block of the file
  std::vector<Tensor> kept;                                        // until they are there
  std::unique_ptr<device::Stream> stream;
  int64_t all = 0;  // weights of a file may overlap, so that a small one could ask for much
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    const plan::Buffer& b = p.buffers[k];
    if (b.device != index || b.kind != plan::BufferKind::kWeight) continue;
    const std::string& name = p.weights[static_cast<size_t>(b.weight)].name;
    const auto named = [&](Status s) { return s.ok() ? s : Status(std::move(s).error().at_node(name)); };
    PERI_ASSIGN(const Tensor weight, engine.weight(static_cast<size_t>(b.weight)));
    const std::span<const std::byte> bytes = weight.bytes();
    const auto [it, fresh] = done.try_emplace({bytes.data(), bytes.size()});
    if (fresh) {
      if (!stream) {
        PERI_ASSIGN(stream, devices_[index]->make_stream());
      }
      PERI_ASSIGN(all, checked_add(all, static_cast<int64_t>(bytes.size()), "weights on a device"));
      if (all > engine.options().memory_limit())
        return Error(ErrorKind::kMemory, "the weights on a device take more memory than an engine may").at_node(name);
      auto memory = devices_[index]->allocate(bytes.size());
      if (!memory.ok()) return std::move(memory).error().at_node(name);
      it->second = memory->address();
      memory_.push_back(std::move(*memory));
      PERI_TRY(named(stream->copy_in(it->second, bytes)));
      kept.push_back(weight);
    }
    weights_[k] = it->second;
  }
  return stream ? stream->synchronize() : Status(Ok{});
}

}  // namespace peri::runtime
