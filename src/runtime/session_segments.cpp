// A run over devices: the memory of a shape on them, segments captured once per shape and replayed, and the sequence of
// host steps and segments.
#include <algorithm>

#include "base/fault.hpp"
#include "device/capture.hpp"
#include "runtime/session_state.hpp"

namespace peri::runtime {

namespace {
// What a block takes more than it has.
int64_t growth(int64_t wanted, const device::Memory& held) {
  return std::max<int64_t>(wanted - static_cast<int64_t>(held.bytes()), 0);
}
}  // namespace

// All that the shape needs on a device beside what is held there already, against what is free. `weights`: bytes of
// those that are brought for it.
Status Session::State::check_room(const BoundShape& s, uint32_t d, int64_t weights) const {
  const DeviceLanes& own = devices.lanes[d];
  const int64_t arena = s.arena_plan.device_bytes[d];
  int64_t ports = 0, more = weights + growth(arena, own.arena);
  for (const plan::Port& port : program().inputs) {
    const auto b = static_cast<size_t>(port.buffer);
    if (program().buffers[b].device != d) continue;
    ports += s.arena_plan.bytes[b];
    more += growth(s.arena_plan.bytes[b], devices.ports[b]);
  }
  if (more == 0) return Ok{};
  const int64_t available = own.device->memory().available_bytes, held = weights + arena + ports - more;
  if (available <= 0 || more <= available) return Ok{};
  const auto number = [](int64_t bytes) { return static_cast<long long>(bytes); };
  const std::string brought = weights > 0 ? format(", weights %lld", number(weights)) : "";
  return Error(ErrorKind::kMemory, format("a run would take %lld bytes on device '%s': arena %lld, inputs %lld%s; "
                                          "it has %lld",
                                          number(weights + arena + ports), own.device->name().c_str(), number(arena),
                                          number(ports), brought.c_str(), number(held)))
      .expecting(format("at most %lld more", number(available)))
      .advise("run with smaller inputs, or on a device with more memory");
}

Status Session::State::check_rooms(const BoundShape& s, std::span<const int64_t> weights) const {
  for (uint32_t d = 1; d < devices.lanes.size(); ++d) PERI_TRY(check_room(s, d, weights.empty() ? 0 : weights[d]));
  return Ok{};
}

// REQUIRES: nothing is enqueued.
Status Session::State::hold_devices(const BoundShape& s) {
  for (uint32_t d = 1; d < devices.lanes.size(); ++d) {
    DeviceLanes& own = devices.lanes[d];
    PERI_TRY(check_room(s, d, 0));
    const auto wanted_bytes = static_cast<size_t>(std::max<int64_t>(s.arena_plan.device_bytes[d], 1));  // has a place
    PERI_TRY(grow_on_device(options(), &own, &own.arena, wanted_bytes, "the arena", &placement));
  }
  for (size_t k = 0; k < s.instances.size(); ++k)
    if (s.instances[k] && s.instances[k]->may_fault())
      PERI_TRY(devices.lanes[program().steps[k].device].hold_faults(program().steps.size()));
  return hold_ports(s);
}

void Session::State::place_on_devices(BoundShape* s) const {
  const plan::Program& p = program();
  s->captured.clear();
  s->captured.resize(devices.segments.size());
  s->elsewhere.clear();
  s->addresses.assign(p.buffers.size(), {});
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    const plan::Buffer& b = p.buffers[k];
    if (devices.staging[k].bytes().data()) s->pointers[k] = devices.staging[k].bytes().data();
    if (b.device == plan::kHost) continue;
    if (b.kind == plan::BufferKind::kWeight)
      s->addresses[k] = engine->device_weight(k);
    else if (b.kind == plan::BufferKind::kInput && b.alias_of < 0)
      s->addresses[k] = devices.ports[k].address();
    else if (b.kind == plan::BufferKind::kState && b.alias_of < 0)
      s->addresses[k] = states[k].away.address();
    else if (s->arena_plan.offset[k] != plan::kUnbound)
      s->addresses[k] = devices.lanes[b.device].arena.address() + static_cast<uint64_t>(s->arena_plan.offset[k]);
    else if (b.alias_of >= 0 && s->arena_plan.bytes[k] != plan::kUnbound)
      if (const device::Address base = s->addresses[static_cast<size_t>(b.alias_of)]; base.value)
        s->addresses[k] = base + static_cast<uint64_t>(s->shift[k]);
  }
}

// Memory of a buffer whose size became known while running.
Result<device::Address> Session::State::place_on_device(int32_t buffer) {
  const plan::Program& p = program();
  std::vector<device::Address>& at = now->addresses;
  const auto owner = static_cast<size_t>(plan::storage_of(p, buffer));
  if (!at[owner].value) {
    PERI_ASSIGN(const int64_t bytes, sizes().table.eval(sizes().buffers[owner].bytes, run_values));
    if (bytes < 0 || bytes > plan::kMaxBufferBytes)
      return Error(ErrorKind::kMemory,
                   format("a data-dependent buffer would take %lld bytes", static_cast<long long>(bytes)))
          .at_node(p.buffers[owner].name);
    DeviceLanes& own = devices.lanes[p.buffers[owner].device];
    uint64_t moved = 0;  // no captures in such programs; the memory's last use was another run
    PERI_TRY(grow_on_device(options(), &own, &devices.pooled[owner], static_cast<size_t>(std::max<int64_t>(bytes, 1)),
                            "a buffer", &moved));
    at[owner] = devices.pooled[owner].address();
  }
  std::vector<int32_t> chain;  // aliases without a place, outermost last
  for (int32_t k = buffer; !at[static_cast<size_t>(k)].value; k = p.buffers[static_cast<size_t>(k)].alias_of)
    chain.push_back(k);
  for (; !chain.empty(); chain.pop_back()) {
    const auto k = static_cast<size_t>(chain.back());
    PERI_ASSIGN(const int64_t offset, alias_offset(chain.back()));
    at[k] = at[static_cast<size_t>(p.buffers[k].alias_of)] + static_cast<uint64_t>(offset);
  }
  return at[static_cast<size_t>(buffer)];
}

Result<EnqueueContext::Argument> Session::State::argument(int32_t buffer) {
  EnqueueContext::Argument out;
  if (buffer < 0) return out;
  const auto k = static_cast<size_t>(buffer);
  int64_t bytes = now->arena_plan.bytes[k];
  if (bytes == plan::kUnbound) {
    PERI_ASSIGN(bytes, sizes().table.eval(sizes().buffers[k].bytes, run_values));
  }
  out.bytes = static_cast<size_t>(bytes);
  if (program().buffers[k].device != plan::kHost) {
    out.address = now->addresses[k];
    // A weight without an address is one that no step reads in its plain form.
    const auto owner = static_cast<size_t>(plan::storage_of(program(), buffer));
    const bool absent = program().buffers[owner].kind == plan::BufferKind::kWeight && !now->addresses[owner].value;
    if (data_dependent && !absent) {
      PERI_ASSIGN(out.address, place_on_device(buffer));
    }
    return out;
  }
  void* host = now->pointers[k];
  if (data_dependent) {
    PERI_ASSIGN(host, place(buffer));
  }
  out.host = static_cast<std::byte*>(host);
  return out;
}

// Of a step that was made for the shape; no bytes: it needs none.
device::Argument Session::State::workspace_of(size_t k) const {
  if (now->work.bytes.empty() || now->work.bytes[k] == 0) return {};
  const device::Address arena = devices.lanes[program().steps[k].device].arena.address();
  return {arena + static_cast<uint64_t>(now->work.offset[k]), static_cast<size_t>(now->work.bytes[k])};
}

Result<DeviceStep> Session::device_step(size_t k) {
  State& s = *state_;
  const plan::Step& step = s.program().steps[k];
  if (!s.now || step.device == plan::kHost || !s.now->instances[k]) return internal_error("no step of a device");
  DeviceLanes& own = s.devices.lanes[step.device];
  DeviceStep out;
  out.instance = s.now->instances[k];
  for (const int32_t b : step.reads) {
    PERI_ASSIGN(out.reads.emplace_back(), s.argument(b));
  }
  for (const int32_t b : step.writes) {
    PERI_ASSIGN(out.writes.emplace_back(), s.argument(b));
  }
  out.workspace = s.workspace_of(k);
  if (out.instance->may_fault()) out.fault = {own.faults.address() + k * sizeof(int32_t), sizeof(int32_t)};
  out.device = own.device;
  out.stream = own.streams[0].get();
  return out;
}

Status Session::State::enqueue_step(size_t k) {
  const plan::Step& step = program().steps[k];
  DeviceLanes& own = devices.lanes[step.device];
  const size_t lane = devices.lane_of[k];
  std::shared_ptr<const Instance> instance = now->instances[k];
  device::Argument workspace = instance ? workspace_of(k) : device::Argument{};
  if (!instance) {
    PERI_ASSIGN(instance, engine->instance(k, run_values));
    if (instance->workspace_bytes() > own.workspaces[lane].bytes()) PERI_TRY(own.streams[lane]->synchronize());
    uint64_t moved = 0;
    PERI_TRY(
        grow_on_device(options(), &own, &own.workspaces[lane], instance->workspace_bytes(), "a workspace", &moved));
    workspace = {own.workspaces[lane].address(), own.workspaces[lane].bytes()};
    devices.running.push_back(instance);
  }
  std::vector<EnqueueContext::Argument> reads, writes;
  for (const int32_t b : step.reads) {
    PERI_ASSIGN(reads.emplace_back(), argument(b));
  }
  for (const int32_t b : step.writes) {
    PERI_ASSIGN(writes.emplace_back(), argument(b));
  }
  EnqueueContext context{reads, writes, workspace, {}, own.streams[lane].get()};
  if (instance->may_fault()) {
    PERI_TRY(own.hold_faults(program().steps.size()));
    context.fault = {own.faults.address() + k * sizeof(int32_t), sizeof(int32_t)};
  }
  return contained([&] { return instance->enqueue(context); });
}

// The first stream leads: the others begin behind what stands there, and it goes on behind them. A lane whose first
// step waits for one of the segment begins behind that.
Status Session::State::enqueue_segment(const plan::Segment& segment) {
  const plan::Program& p = program();
  DeviceLanes& own = devices.lanes[segment.device];
  std::vector<bool> used(own.streams.size(), false), forked(own.streams.size(), false);
  const auto crosses = [&](size_t k, int32_t w) {
    return static_cast<size_t>(w) >= segment.begin && devices.lane_of[static_cast<size_t>(w)] != devices.lane_of[k];
  };
  for (size_t k = segment.begin; k < segment.end; ++k) {
    const size_t lane = devices.lane_of[k];
    const std::vector<int32_t>& waits = p.steps[k].waits_for;
    if (!used[lane] && lane > 0)
      forked[lane] = std::none_of(waits.begin(), waits.end(), [&](int32_t w) { return crosses(k, w); });
    used[lane] = true;
  }
  if (std::count(forked.begin(), forked.end(), true) > 0) PERI_TRY(own.streams[0]->record(*own.reached[0]));
  for (size_t lane = 1; lane < used.size(); ++lane)
    if (forked[lane]) PERI_TRY(own.streams[lane]->wait(*own.reached[0]));
  for (size_t k = segment.begin; k < segment.end; ++k) {
    device::Stream& stream = *own.streams[devices.lane_of[k]];
    const auto enqueue = [&]() -> Status {
      for (const int32_t w : p.steps[k].waits_for)
        if (crosses(k, w)) PERI_TRY(stream.wait(*devices.done[static_cast<size_t>(w)]));
      PERI_TRY(enqueue_step(k));
      if (devices.done[k]) PERI_TRY(stream.record(*devices.done[k]));
      return Ok{};
    };
    Status enqueued = enqueue();
    if (!enqueued.ok()) return at_step(std::move(enqueued).error(), p.steps[k].name);
  }
  for (size_t lane = 1; lane < used.size(); ++lane) {
    if (!used[lane]) continue;
    PERI_TRY(own.streams[lane]->record(*own.reached[lane]));
    PERI_TRY(own.streams[0]->wait(*own.reached[lane]));
  }
  return Ok{};
}

namespace {
std::string segment_name(const plan::Program& p, const plan::Segment& s) {
  const std::string& first = p.steps[s.begin].name;
  return s.end - s.begin == 1 ? first : first + "' to '" + p.steps[s.end - 1].name;
}
}  // namespace

Status Session::State::capture_segment(size_t index) {
  const plan::Segment& segment = devices.segments[index];
  device::Stream& lead = *devices.lanes[segment.device].streams[0];
  PERI_ASSIGN(now->captured[index], device::capture(lead, [&] { return enqueue_segment(segment); }));
  ++devices.captures;
  return Ok{};
}

// Captures what the current shape has not captured yet. Not where sizes hang on data, or every step is looked at.
Status Session::State::capture_segments() {
  if (data_dependent || guards() || hook) return Ok{};
  for (size_t k = 0; k < devices.segments.size(); ++k) {
    if (now->captured[k]) continue;
    Status done = capture_segment(k);
    if (!done.ok()) {
      abandon();
      Error error = std::move(done).error();
      return std::move(error).at_node(segment_name(program(), devices.segments[k]));
    }
  }
  return Ok{};
}

// Step by step, each waited for.
Status Session::State::step_through(const plan::Segment& segment) {
  DeviceLanes& own = devices.lanes[segment.device];
  for (size_t k = segment.begin; k < segment.end; ++k) {
    const std::string& name = program().steps[k].name;
    if (hook) hook(k, true);
    Status done = enqueue_step(k);
    if (done.ok()) done = own.streams[devices.lane_of[k]]->synchronize();
    if (done.ok() && guards()) done = check_guards(k);
    if (hook) hook(k, false);
    if (!done.ok()) return at_step(std::move(done).error(), name);
  }
  return Ok{};
}

Status Session::State::run_segment(size_t index) {
  const plan::Segment& segment = devices.segments[index];
  DeviceLanes& own = devices.lanes[segment.device];
  const auto& left = options().steps_left;
  const auto count = static_cast<int64_t>(segment.end - segment.begin);
  PERI_TRY(check_stop(segment.begin));
  if (left && left->fetch_sub(count) < count)
    return refused("the run's budget of steps is spent").at_node(program().steps[segment.begin].name);
  for (size_t k = segment.begin; k < segment.end; ++k) PERI_TRY(settle_for(k));
  if (hook || guards()) return step_through(segment);
  own.enqueued = segment_name(program(), segment);
  Status done = now->captured[index] ? own.streams[0]->replay(*now->captured[index]) : enqueue_segment(segment);
  if (done.ok()) return Ok{};
  Error error = std::move(done).error();
  return now->captured[index] ? at_step(std::move(error), own.enqueued) : std::move(error).at_node(own.enqueued);
}

// What a step waits for on devices that are not its own.
Status Session::State::settle_for(size_t k) {
  const plan::Program& p = program();
  for (const int32_t w : p.steps[k].waits_for)
    if (const uint32_t d = p.steps[static_cast<size_t>(w)].device; d != plan::kHost && d != p.steps[k].device)
      PERI_TRY(devices.lanes[d].settle());
  return Ok{};
}

Status Session::State::walk_steps() {
  PERI_TRY(capture_segments());
  for (uint32_t d = 1; d < devices.lanes.size(); ++d) PERI_TRY(devices.lanes[d].clear_faults());
  PERI_TRY(enqueue_inputs());
  size_t segment = 0;
  for (size_t k = 0; k < program().steps.size();) {
    if (segment < devices.segments.size() && devices.segments[segment].begin == k) {
      PERI_TRY(run_segment(segment));
      k = devices.segments[segment++].end;
      continue;
    }
    PERI_TRY(settle_for(k));
    PERI_TRY(run_step(k++));
  }
  PERI_TRY(enqueue_outputs());
  return waits ? settle_all() : Ok{};
}

// Waits for all devices; then what work found wrong in the data is the run's error.
Status Session::State::settle_all() {
  for (DeviceLanes& own : devices.lanes)
    if (own.faults.bytes() && !own.enqueued.empty())
      PERI_TRY(own.streams[0]->copy_out(own.fault_words.bytes(), own.faults.address()));
  for (DeviceLanes& own : devices.lanes) PERI_TRY(own.settle());
  return check_faults();
}

Status Session::State::check_faults() {
  for (uint32_t d = 1; d < devices.lanes.size(); ++d) {
    DeviceLanes& own = devices.lanes[d];
    if (!own.faults.bytes()) continue;
    const auto* const words = reinterpret_cast<const int32_t*>(own.fault_words.bytes().data());
    for (size_t k = 0; now && k < program().steps.size(); ++k) {
      if (program().steps[k].device != d || !words[k]) continue;
      own.clean = false;
      std::shared_ptr<const Instance> instance = now->instances[k];
      if (!instance) {
        PERI_ASSIGN(instance, engine->instance(k, run_values));
      }
      return instance->fault(words[k]).at_node(program().steps[k].name);
    }
  }
  return Ok{};
}

// After an error: nothing is enqueued any more.
void Session::State::abandon() {
  for (DeviceLanes& own : devices.lanes) {
    own.quiesce();
    own.clean = own.faults.bytes() == 0;
  }
  devices.under_way = false;
}

Status Session::State::run_on_devices() {
  Status done = walk_steps();
  if (!done.ok()) abandon();
  if (waits || !done.ok()) devices.running.clear();
  return done;
}

// All bytes of a buffer of a device: the first from here, the others from these.
Status Session::State::write_device(size_t buffer, std::byte value) {
  constexpr size_t kFirst = size_t{1} << 20;
  const auto bytes = static_cast<size_t>(now->arena_plan.bytes[buffer]);
  const DeviceLanes& own = devices.lanes[program().buffers[buffer].device];
  const device::Address at = now->addresses[buffer];
  const std::vector<std::byte> first(std::min(bytes, kFirst), value);
  PERI_TRY(own.write(at, first));
  for (size_t done = first.size(); done < bytes; done *= 2)
    PERI_TRY(own.streams[0]->copy(at + done, at, std::min(done, bytes - done)));
  return bytes > kFirst ? own.streams[0]->synchronize() : Status(Ok{});
}

}  // namespace peri::runtime
