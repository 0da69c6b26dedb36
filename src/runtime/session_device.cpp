// Opens the device objects of a session, and waits for them.
#include "runtime/session_device.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

namespace peri::runtime {

Error at_step(Error error, const std::string& step) {
  if (!error.node.empty() && error.node != step) error.message += " (" + error.node + ")";
  error.node = step;
  return error;
}

Status DeviceLanes::settle() {
  if (enqueued.empty()) return Ok{};
  const std::string what = std::exchange(enqueued, {});
  Status done = streams[0]->synchronize();
  if (done.ok()) return Ok{};
  Error error = std::move(done).error();
  return error.node.starts_with("launch ") ? error : at_step(std::move(error), what);  // a launch has its step's name
}

void DeviceLanes::quiesce() {
  enqueued.clear();
  for (int again = 0; again < 2; ++again)  // a call that fails has not waited, and one that tells an error has
    for (const auto& s : streams) (void)s->synchronize();
}

Status DeviceLanes::write(device::Address to, std::span<const std::byte> bytes) const {
  PERI_TRY(streams[0]->copy_in(to, bytes));
  return streams[0]->synchronize();
}

Status DeviceLanes::read(std::span<std::byte> to, device::Address from) const {
  PERI_TRY(streams[0]->copy_out(to, from));
  return streams[0]->synchronize();
}

Status DeviceLanes::hold_faults(size_t steps) {
  const size_t bytes = steps * sizeof(int32_t);
  if (faults.bytes() >= bytes) return Ok{};
  const std::string what = format("words for faults on device '%s'", device->name().c_str());
  auto words = device->pinned(bytes);
  if (!words.ok()) return at_step(std::move(words).error(), what);
  auto made = device->allocate(bytes);
  if (!made.ok()) return at_step(std::move(made).error(), what);
  fault_words = std::move(*words);
  faults = std::move(*made);
  clean = false;
  return clear_faults();
}

Status DeviceLanes::clear_faults() {
  if (clean) return Ok{};
  std::memset(fault_words.bytes().data(), 0, fault_words.bytes().size());
  PERI_TRY(write(faults.address(), fault_words.bytes()));
  clean = true;
  return Ok{};
}

Status grow_on_device(const EngineOptions& options, DeviceLanes* own, device::Memory* memory, size_t bytes,
                      const char* what, uint64_t* placement) {
  if (bytes <= memory->bytes()) return Ok{};
  ++*placement;
  *memory = device::Memory();  // before the new one is taken: both need not fit
  const int64_t most = options.memory_bytes > 0 ? options.memory_bytes : own->device->memory().available_bytes;
  if (most > 0 && bytes > static_cast<size_t>(most))
    return Error(ErrorKind::kMemory,
                 format("%s of device '%s' would take %zu bytes", what, own->device->name().c_str(), bytes))
        .expecting(format("at most %lld", static_cast<long long>(most)))
        .advise("run with smaller inputs, or on a device with more memory");
  auto fresh = own->device->allocate(bytes);
  if (!fresh.ok())
    return at_step(std::move(fresh).error(), format("%s of device '%s'", what, own->device->name().c_str()));
  *memory = std::move(*fresh);
  return Ok{};
}
Status DeviceRun::open(const Engine& engine) {
  const plan::Program& p = engine.program();
  if (p.devices.size() == 1) return Ok{};
  segments = plan::segments(p);
  lanes.resize(p.devices.size());
  staging.resize(p.buffers.size() + p.outputs.size());
  ports.resize(p.buffers.size());
  pooled.resize(p.buffers.size());
  fixed.assign(p.buffers.size(), false);
  done.resize(p.steps.size());
  const std::vector<int32_t> owner = plan::storages(p);
  std::vector<std::map<uint32_t, size_t>> index(p.devices.size());  // of lanes, by their number
  for (const plan::Step& s : p.steps) {
    lane_of.push_back(s.device == plan::kHost ? 0
                                              : index[s.device].emplace(s.lane, index[s.device].size()).first->second);
    for (const auto* list : {&s.reads, &s.writes})
      for (const int32_t b : *list)
        if (b >= 0 && s.device != plan::kHost) fixed[static_cast<size_t>(owner[static_cast<size_t>(b)])] = true;
  }
  std::set<uint32_t> homes;  // of ports
  for (const auto* list : {&p.inputs, &p.outputs})
    for (const plan::Port& port : *list) {
      const uint32_t device = p.buffers[static_cast<size_t>(port.buffer)].device;
      homes.insert(device);
      if (device != plan::kHost) fixed[static_cast<size_t>(owner[static_cast<size_t>(port.buffer)])] = true;
    }
  if (homes.size() == 1) resident = *homes.begin();
  for (uint32_t d = 1; d < p.devices.size(); ++d) {
    DeviceLanes& own = lanes[d];
    own.device = engine.device(d);
    for (size_t lane = 0; lane < std::max<size_t>(index[d].size(), 1); ++lane) {
      PERI_ASSIGN(auto stream, own.device->make_stream());
      PERI_ASSIGN(auto event, own.device->make_event());
      own.streams.push_back(std::move(stream));
      own.reached.push_back(std::move(event));
    }
    own.workspaces.resize(own.streams.size());
  }
  for (const plan::Segment& segment : segments)
    for (size_t k = segment.begin; k < segment.end; ++k)
      for (const int32_t w : p.steps[k].waits_for) {
        const auto at = static_cast<size_t>(w);
        if (at < segment.begin || lane_of[at] == lane_of[k] || done[at]) continue;
        PERI_ASSIGN(done[at], lanes[segment.device].device->make_event());
      }
  return Ok{};
}

}  // namespace peri::runtime
