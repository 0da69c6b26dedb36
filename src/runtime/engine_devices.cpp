// Opens devices, and copies each weight that steps read there once.
#include "runtime/engine_devices.hpp"

#include <algorithm>
#include <iterator>

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
  if (p.devices.size() == 1 && device::kind_of(options.device) == "cpu") return Ok{};
  if (std::find(p.devices.begin(), p.devices.end(), device::kind_of(options.device)) != p.devices.end()) return Ok{};
  std::string kinds;
  for (const std::string& kind : p.devices) kinds += (kinds.empty() ? "" : ", ") + kind;
  if (p.devices.size() == 1) kinds = "cpu";
  Error none = usage("the engine does not run on device '%s'", options.device.c_str()).expecting(kinds);
  if (device::kind_of(options.device) == "cuda")
    return std::move(none).advise("build it for that device: peri build MODEL --backend cuda -o ENGINE");
  return std::move(none).advise("leave the device out, or name one of several as cuda:1");
}

// What the engine takes there at the sizes it was tuned for, against what is free, before anything is taken: weights
// in the form of the file, for which those that steps keep in a form of their own stand.
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
  blocks_.resize(p.devices.size());
  weights_.resize(p.devices.size() > 1 ? p.buffers.size() : 0);
  for (uint32_t d = 1; d < p.devices.size(); ++d) {
    PERI_ASSIGN(devices_[d], find_device(engine.options(), p.devices[d]));
    PERI_TRY(check_room(engine, d, *devices_[d]));
  }
  return Ok{};
}

std::vector<std::set<size_t>> EngineDevices::wanted(const plan::Program& p,
                                                    std::span<const std::shared_ptr<const Instance>> instances) const {
  std::vector<std::set<size_t>> out(p.devices.size());
  const auto want = [&](int32_t b) {
    if (b < 0) return;
    const auto k = static_cast<size_t>(plan::storage_of(p, b));
    const plan::Buffer& buffer = p.buffers[k];
    if (buffer.kind == plan::BufferKind::kWeight && buffer.device != plan::kHost && !weights_[k].value)
      out[buffer.device].insert(k);
  };
  for (size_t k = 0; k < p.steps.size(); ++k)
    for (size_t j = 0; j < p.steps[k].reads.size(); ++j)
      if (!instances[k] || instances[k]->reads_argument(j)) want(p.steps[k].reads[j]);
  for (const plan::Port& port : p.outputs) want(port.buffer);
  return out;
}

Result<std::vector<int64_t>> EngineDevices::to_bring(const Engine& engine,
                                                     std::span<const std::shared_ptr<const Instance>> instances) const {
  const plan::Program& p = engine.program();
  const std::lock_guard<std::mutex> lock(lock_);
  const std::vector<std::set<size_t>> all = wanted(p, instances);
  std::vector<int64_t> out(p.devices.size(), 0);
  for (uint32_t d = 1; d < p.devices.size(); ++d) {
    std::set<std::pair<const void*, size_t>> blocks;
    for (const size_t k : all[d]) {
      PERI_ASSIGN(const Tensor weight, engine.weight(static_cast<size_t>(p.buffers[k].weight)));
      const std::pair<const void*, size_t> block{weight.bytes().data(), weight.bytes().size()};
      if (blocks_[d].contains(block) || !blocks.insert(block).second) continue;
      PERI_ASSIGN(out[d], checked_add(out[d], static_cast<int64_t>(block.second), "weights on a device"));
    }
  }
  return out;
}

Status EngineDevices::bring(const Engine& engine, std::span<const std::shared_ptr<const Instance>> instances) {
  const plan::Program& p = engine.program();
  const std::lock_guard<std::mutex> lock(lock_);
  const std::vector<std::set<size_t>> all = wanted(p, instances);
  for (uint32_t d = 1; d < p.devices.size(); ++d)
    if (!all[d].empty()) PERI_TRY(upload(engine, d, all[d]));
  return Ok{};
}

// What fails leaves nothing that is half there.
Status EngineDevices::upload(const Engine& engine, uint32_t index, const std::set<size_t>& wanted) {
  const plan::Program& p = engine.program();
  auto blocks = blocks_[index];
  std::vector<Tensor> kept;  // until they are there
  std::vector<device::Memory> fresh;
  PERI_ASSIGN(const std::unique_ptr<device::Stream> stream, devices_[index]->make_stream());
  int64_t all = bytes_;  // weights of a file may overlap, so that a small one could ask for much
  for (const size_t k : wanted) {
    const plan::Buffer& b = p.buffers[k];
    const std::string& name = p.weights[static_cast<size_t>(b.weight)].name;
    PERI_ASSIGN(const Tensor weight, engine.weight(static_cast<size_t>(b.weight)));
    const std::span<const std::byte> bytes = weight.bytes();
    const auto [it, is_new] = blocks.try_emplace({bytes.data(), bytes.size()});
    if (!is_new) continue;
    PERI_ASSIGN(all, checked_add(all, static_cast<int64_t>(bytes.size()), "weights on a device"));
    if (all > engine.options().memory_limit())
      return Error(ErrorKind::kMemory, "the weights on a device take more memory than an engine may").at_node(name);
    auto memory = devices_[index]->allocate(bytes.size());
    if (!memory.ok()) return std::move(memory).error().at_node(name);
    it->second = memory->address();
    fresh.push_back(std::move(*memory));
    Status copied = stream->copy_in(it->second, bytes);
    if (!copied.ok()) {
      (void)stream->synchronize();  // before what it is made of goes
      return std::move(copied).error().at_node(name);
    }
    kept.push_back(weight);
  }
  PERI_TRY(stream->synchronize());
  for (const size_t k : wanted) {
    PERI_ASSIGN(const Tensor weight, engine.weight(static_cast<size_t>(p.buffers[k].weight)));
    weights_[k] = blocks.at({weight.bytes().data(), weight.bytes().size()});
  }
  blocks_[index] = std::move(blocks);
  bytes_ = all;
  std::move(fresh.begin(), fresh.end(), std::back_inserter(memory_));
  return Ok{};
}

}  // namespace peri::runtime
