// Opening, and one copy of each weight a device.
#include "runtime/engine_devices.hpp"

#include <algorithm>
#include <map>

#include "base/bytes.hpp"
#include "device/open.hpp"
#include "plan/memory.hpp"
#include "runtime/engine.hpp"

namespace peri::runtime {

namespace {
// The device that a program means by a kind: one that was given, else one that is opened.
Result<std::shared_ptr<device::Device>> find_device(const EngineOptions& options, const std::string& kind) {
  const std::string wanted = device::which_of(kind, options.device);
  const auto fits = [&](const auto& x) { return device::is_asked_for(x->name(), wanted); };
  const auto it = std::find_if(options.devices.begin(), options.devices.end(), fits);
  if (it != options.devices.end()) return *it;
  return device::open_device(wanted);
}

Status check_choice(const EngineOptions& options, const plan::Program& p) {
  if (options.device.empty()) return Ok{};
  PERI_TRY(device::ordinal_of(options.device));
  if (std::find(p.devices.begin(), p.devices.end(), device::kind_of(options.device)) != p.devices.end()) return Ok{};
  std::string kinds;
  for (const std::string& kind : p.devices) kinds += (kinds.empty() ? "" : ", ") + kind;
  return usage("the engine does not run on device '%s'", options.device.c_str())
      .expecting(kinds)
      .advise("build it for that device: peri build MODEL --backend " + std::string(device::kind_of(options.device)) +
              " -o ENGINE");
}

// What the engine takes there at the sizes it was tuned for, against what is free, before anything is taken.
Status check_room(const Engine& engine, uint32_t index, const device::Device& device) {
  const plan::Program& p = engine.program();
  const auto plan = plan::plan_arena(p, {p.tuned_for.begin(), p.tuned_for.end()});
  if (!plan.ok()) return Ok{};  // of sizes that a file only says it was tuned for; each session plans for its own
  const plan::DeviceMemory needs = plan::device_memory(p, *plan)[index];
  const int64_t available = device.memory().available_bytes;
  if (available <= 0 || needs.total() <= available) return Ok{};
  return Error(ErrorKind::kMemory,
               format("the engine takes %s on %s", plan::memory_text(needs).c_str(), device.name().c_str()))
      .expecting("at most " + mib_text(available) + ", which are free")
      .advise("end what else uses that device, or take smaller sizes");
}
}  // namespace

Status EngineDevices::open(const Engine& engine) {
  const plan::Program& p = engine.program();
  PERI_TRY(check_choice(engine.options(), p));
  devices_.resize(p.devices.size());
  weights_.resize(p.devices.size() > 1 ? p.buffers.size() : 0);
  for (uint32_t d = 1; d < p.devices.size(); ++d) {
    PERI_ASSIGN(devices_[d], find_device(engine.options(), p.devices[d]));
    PERI_TRY(check_room(engine, d, *devices_[d]));
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
