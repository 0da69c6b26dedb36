// Inputs and outputs on a device: copied there and back by the session, or used in the caller's memory, with separate
// captures for each set of addresses that is used again.
#include <algorithm>
#include <cstring>

#include "base/plural.hpp"
#include "runtime/session_state.hpp"

namespace peri::runtime {

namespace {
constexpr size_t kKeptPlaces = 4;  // sets of the caller's memory for each shape
}

// REQUIRES: nothing is enqueued.
Status Session::State::hold_ports(const BoundShape& s) {
  const plan::Program& p = program();
  const auto hold_pinned = [&](size_t slot, const std::string& name, bool captured) -> Status {
    const size_t buffer =
        slot < p.buffers.size() ? slot : static_cast<size_t>(p.outputs[slot - p.buffers.size()].buffer);
    const int64_t bytes = std::max<int64_t>(s.arena_plan.bytes[buffer], 1);
    device::Pinned& at = devices.staging[slot];
    if (static_cast<size_t>(bytes) <= at.bytes().size()) return Ok{};
    if (bytes > options().memory_limit())
      return Error(ErrorKind::kMemory, format("it takes %lld bytes of the host", static_cast<long long>(bytes)))
          .at_node(name);
    if (captured) ++placement;
    at = device::Pinned();
    auto made = devices.lanes[1].device->pinned(static_cast<size_t>(bytes));
    if (!made.ok()) return at_step(std::move(made).error(), name);
    at = std::move(*made);
    return Ok{};
  };
  for (const plan::Port& port : p.inputs) {
    const auto b = static_cast<size_t>(port.buffer);
    if (!devices.fixed[b]) continue;
    PERI_TRY(hold_pinned(b, port.name, !is_away(port.buffer)));
    if (!is_away(port.buffer)) continue;
    const auto bytes = static_cast<size_t>(std::max<int64_t>(s.arena_plan.bytes[b], 1));
    PERI_TRY(grow_on_device(options(), &devices.lanes[p.buffers[b].device], &devices.ports[b], bytes, "an input",
                            &placement));
  }
  for (size_t k = 0; k < p.outputs.size(); ++k)
    if (is_away(p.outputs[k].buffer) && s.arena_plan.bytes[static_cast<size_t>(p.outputs[k].buffer)] != plan::kUnbound)
      PERI_TRY(hold_pinned(p.buffers.size() + k, p.outputs[k].name, false));
  return Ok{};
}

Status Session::State::enqueue_inputs() {
  const plan::Program& p = program();
  for (size_t k = 0; k < inputs_at.size(); ++k) {
    const auto b = static_cast<size_t>(p.inputs[k].buffer);
    const PortMemory& from = inputs_at[k];
    if (!is_away(p.inputs[k].buffer)) continue;
    DeviceLanes& own = devices.lanes[p.buffers[b].device];
    const auto bytes = static_cast<size_t>(now->arena_plan.bytes[b]);
    const device::Address to = now->addresses[b];
    Status done = Ok{};
    if (!from.host.empty()) {
      std::byte* const staged = devices.staging[b].bytes().data();
      if (staged != from.host.data()) std::memcpy(staged, from.host.data(), bytes);
      done = own.streams[0]->copy_in(to, {staged, bytes});
    } else if (from.address.value && !(from.address == to)) {
      done = own.streams[0]->copy(to, from.address, bytes);
    }
    if (!done.ok()) return at_step(std::move(done).error(), p.inputs[k].name);
    if (own.enqueued.empty()) own.enqueued = "the inputs";
  }
  return Ok{};
}

// Behind all work of the run, which ends in the first streams.
Status Session::State::enqueue_outputs() {
  const plan::Program& p = program();
  for (size_t k = 0; k < p.outputs.size(); ++k) {
    if (!is_away(p.outputs[k].buffer)) continue;
    const PortMemory to = k < outputs_at.size() ? outputs_at[k] : PortMemory{};
    PERI_ASSIGN(const EnqueueContext::Argument from, argument(p.outputs[k].buffer));
    DeviceLanes& own = devices.lanes[p.buffers[static_cast<size_t>(p.outputs[k].buffer)].device];
    device::Pinned& staged = devices.staging[p.buffers.size() + k];
    Status done = Ok{};
    if (outputs_at.empty() || !to.host.empty()) {
      if (staged.bytes().size() < from.bytes) {  // of a size that the run itself told
        PERI_ASSIGN(staged, own.device->pinned(from.bytes));
      }
      done = own.streams[0]->copy_out(staged.bytes().first(from.bytes), from.address);
    } else if (to.address.value && !(to.address == from.address)) {
      done = own.streams[0]->copy(to.address, from.address, from.bytes);
    }
    if (!done.ok()) return at_step(std::move(done).error(), p.outputs[k].name);
    if (own.enqueued.empty()) own.enqueued = "the outputs";
  }
  return Ok{};
}

Result<device::Argument> Session::State::port_memory(const plan::Port& port) const {
  if (!now)
    return usage("no shape is prepared").at_node(port.name).advise("call prepare() with the inputs' sizes first");
  const auto b = static_cast<size_t>(port.buffer);
  if (!is_away(port.buffer)) return unsupported("it lies on the host").at_node(port.name);
  if (!now->addresses[b].value || now->arena_plan.bytes[b] == plan::kUnbound)
    return unsupported("its size depends on the data").at_node(port.name);
  return device::Argument{now->addresses[b], static_cast<size_t>(now->arena_plan.bytes[b])};
}

Status Session::State::check_resident(const ResidentRun& r) const {
  const plan::Program& p = program();
  if (!now) return usage("a run without a shape").advise("call prepare() with the inputs' sizes first");
  if (devices.resident == plan::kHost) {
    for (const auto* ports : {&p.inputs, &p.outputs})
      for (const plan::Port& port : *ports)
        if (!is_away(port.buffer))
          return unsupported("it lies on the host").at_node(port.name).advise("give and take it in host memory");
    return unsupported("the engine has no ports on one device");
  }
  if ((!r.inputs.empty() && r.inputs.size() != p.inputs.size()) ||
      (!r.outputs.empty() && r.outputs.size() != p.outputs.size()))
    return usage("%s and %s given", counted(std::ssize(r.inputs), "input").c_str(),
                 counted(std::ssize(r.outputs), "output").c_str())
        .expecting(format("%zu and %zu, or none", p.inputs.size(), p.outputs.size()));
  for (size_t k = 0; k < r.inputs.size() + r.outputs.size(); ++k) {
    const bool input = k < r.inputs.size();
    const plan::Port& port = input ? p.inputs[k] : p.outputs[k - r.inputs.size()];
    const std::span<std::byte> host = input ? r.inputs[k].host : r.outputs[k - r.inputs.size()].host;
    const int64_t bytes = now->arena_plan.bytes[static_cast<size_t>(port.buffer)];
    if (!host.empty() && host.size() != static_cast<size_t>(bytes))
      return usage("memory of another size")
          .at_node(port.name)
          .expecting(std::to_string(bytes))
          .but_found(std::to_string(host.size()));
    if (!host.empty() && !r.wait) return usage("memory of the host in a run that is not waited for").at_node(port.name);
  }
  return Ok{};
}

namespace {
struct Range {
  uint64_t begin, end;
  bool output;
};
bool collide(const Range& a, const Range& b) { return (a.output || b.output) && a.begin < b.end && b.begin < a.end; }
}  // namespace

// For each port the caller's address that steps may work on; 0: the session's own memory.
std::vector<device::Address> Session::State::in_place(const ResidentRun& r) {
  const plan::Program& p = program();
  const size_t inputs = p.inputs.size();
  std::vector<device::Address> out(inputs + p.outputs.size());
  std::vector<device::Address> none = out;
  std::vector<Range> ranges;
  why_copied = data_dependent ? "sizes hang on the data" : guards() || hook ? "each step is looked at" : "";
  if (*why_copied) return none;
  for (size_t k = 0; k < out.size(); ++k) {
    const bool output = k >= inputs;
    const auto& given = output ? r.outputs : r.inputs;
    const plan::Port& port = output ? p.outputs[k - inputs] : p.inputs[k];
    if (given.empty() || !given[output ? k - inputs : k].address.value) continue;
    const device::Address at = given[output ? k - inputs : k].address;
    const auto b = static_cast<size_t>(port.buffer);
    const Range range{at.value, at.value + static_cast<uint64_t>(now->arena_plan.bytes[b]), output};
    if (std::any_of(ranges.begin(), ranges.end(), [&](const Range& other) { return collide(range, other); })) {
      why_copied = "an output lies in the memory of another port";
      return none;
    }
    ranges.push_back(range);
    const int32_t owner = plan::storage_of(p, port.buffer);
    const auto same = [&](const plan::Port& q) { return plan::storage_of(p, q.buffer) == owner; };
    const plan::BufferKind kind = p.buffers[static_cast<size_t>(owner)].kind;
    const bool own = kind == plan::BufferKind::kOutput || kind == plan::BufferKind::kScratch;
    const bool whole = now->arena_plan.bytes[static_cast<size_t>(owner)] == now->arena_plan.bytes[b];
    const bool shared = output && (!own || !whole || std::count_if(p.outputs.begin(), p.outputs.end(), same) > 1);
    if (shared)
      why_copied = "an output shares its memory with another value";
    else if (at.value % p.buffers[b].alignment || at.value % p.buffers[static_cast<size_t>(owner)].alignment)
      why_copied = "an address is not aligned as its buffer is";
    else
      out[k] = at;
  }
  return out;
}

// The places that a run names, lent to the device; most recently used first.
Result<PortSet*> Session::State::port_set(std::vector<device::Address> given) {
  auto& sets = now->elsewhere;
  const auto it = std::find_if(sets.begin(), sets.end(), [&](const auto& s) { return s->given == given; });
  if (it != sets.end()) {
    std::rotate(sets.begin(), it, it + 1);
    return sets.front().get();
  }
  const plan::Program& p = program();
  auto fresh = std::make_unique<PortSet>();
  for (size_t k = 0; k < given.size(); ++k) {
    if (!given[k].value) continue;
    const plan::Port& port = k < p.inputs.size() ? p.inputs[k] : p.outputs[k - p.inputs.size()];
    const int64_t bytes = now->arena_plan.bytes[static_cast<size_t>(port.buffer)];
    if (bytes == plan::kUnbound) return usage("its size depends on the data").at_node(port.name);
    auto lent = devices.lanes[devices.resident].device->lend(given[k], static_cast<size_t>(bytes));
    if (!lent.ok()) return at_step(std::move(lent).error(), port.name);
    fresh->lent.push_back(std::move(*lent));
  }
  fresh->given = std::move(given);
  if (sets.size() == kKeptPlaces) {
    PERI_TRY(finish());  // work may name what is taken away
    sets.pop_back();
  }
  sets.insert(sets.begin(), std::move(fresh));
  return sets.front().get();
}

namespace {
// Addresses of a shape where those of some ports, and of all that aliases them, are others.
std::vector<device::Address> moved(const plan::Program& p, const std::vector<device::Address>& own,
                                   const std::vector<device::Address>& at) {
  std::vector<device::Address> out = own;
  const std::vector<int32_t> owner = plan::storages(p);
  for (size_t k = 0; k < at.size(); ++k) {
    if (!at[k].value) continue;
    const int32_t port = k < p.inputs.size() ? p.inputs[k].buffer : p.outputs[k - p.inputs.size()].buffer;
    const int32_t root = owner[static_cast<size_t>(port)];
    for (size_t b = 0; b < out.size(); ++b)
      if (owner[b] == root && own[b].value) out[b] = at[k] + (own[b].value - own[static_cast<size_t>(root)].value);
  }
  return out;
}
}  // namespace

// What of the caller's memory on the device is not the session's own; by port.
std::vector<device::Address> Session::State::given_places(const ResidentRun& r) const {
  const plan::Program& p = program();
  std::vector<device::Address> out(p.inputs.size() + p.outputs.size());
  const auto take = [&](const std::vector<PortMemory>& list, const std::vector<plan::Port>& ports, size_t first) {
    for (size_t k = 0; k < list.size(); ++k)
      if (!(list[k].address == now->addresses[static_cast<size_t>(ports[k].buffer)])) out[first + k] = list[k].address;
  };
  take(r.inputs, p.inputs, 0);
  take(r.outputs, p.outputs, p.inputs.size());
  return out;
}

// The set of places to work on; null: the session's own memory, to and from which all is copied.
Result<PortSet*> Session::State::choose_places(const ResidentRun& r) {
  const auto there = [](device::Address a) { return a.value != 0; };
  std::vector<device::Address> given = given_places(r);
  const bool any = std::any_of(given.begin(), given.end(), there);
  port_use = any ? PortUse::kCopied : PortUse::kOwn;
  why_copied = "";
  if (!any) return nullptr;
  const auto known = [&](const auto& s) { return s->given == given; };
  const bool again = std::any_of(now->elsewhere.begin(), now->elsewhere.end(), known);
  PERI_ASSIGN(PortSet* const set, port_set(given));
  why_copied = "it is named for the first time";
  if (!again) return nullptr;
  const std::vector<device::Address> at = in_place(r);
  if (at == given) port_use = PortUse::kInPlace;
  if (std::none_of(at.begin(), at.end(), there)) return nullptr;
  if (set->addresses.empty()) {
    set->addresses = moved(program(), now->addresses, at);
    set->captured.resize(devices.segments.size());
  }
  return set;
}

Status Session::State::run_resident(const ResidentRun& r) {
  PERI_TRY(check_resident(r));
  const auto on_host = [](const PortMemory& m) { return !m.host.empty(); };
  if (hook || guards() || std::any_of(r.inputs.begin(), r.inputs.end(), on_host) ||
      std::any_of(r.outputs.begin(), r.outputs.end(), on_host))
    PERI_TRY(finish());  // staging is that of the runs before
  PERI_ASSIGN(PortSet* const set, choose_places(r));
  DeviceLanes& own = devices.lanes[devices.resident];
  device::Stream& lead = *own.streams[0];
  const bool joins = r.stream && r.stream != &lead;
  if (joins && !own.outer) {
    PERI_ASSIGN(own.outer, own.device->make_event());
  }
  if (joins) {
    PERI_TRY(r.stream->record(*own.outer));
    PERI_TRY(lead.wait(*own.outer));
  }
  begin_run();
  inputs_at = r.inputs;
  outputs_at = r.outputs;
  if (outputs_at.empty()) outputs_at.resize(program().outputs.size());
  waits = r.wait;
  if (set) {
    now->addresses.swap(set->addresses);
    now->captured.swap(set->captured);
  }
  Status done = run_on_devices();
  if (set) {
    now->addresses.swap(set->addresses);
    now->captured.swap(set->captured);
  }
  PERI_TRY(std::move(done));
  devices.under_way = !r.wait;
  if (joins && !r.wait) {
    PERI_TRY(lead.record(*own.outer));
    PERI_TRY(r.stream->wait(*own.outer));
  }
  for (size_t k = 0; k < r.outputs.size(); ++k)
    if (on_host(r.outputs[k]))
      std::memcpy(r.outputs[k].host.data(), devices.staging[program().buffers.size() + k].bytes().data(),
                  r.outputs[k].host.size());
  return Ok{};
}

Status Session::State::finish() {
  if (!std::exchange(devices.under_way, false)) return Ok{};
  Status done = settle_all();
  if (!done.ok()) abandon();
  devices.running.clear();
  return done;
}

device::Device* Session::resident_device() const {
  const DeviceRun& d = state_->devices;
  return d.resident == plan::kHost ? nullptr : d.lanes[d.resident].device;
}
device::Stream* Session::stream() const {
  const DeviceRun& d = state_->devices;
  return d.resident == plan::kHost ? nullptr : d.lanes[d.resident].streams[0].get();
}
Result<device::Argument> Session::input_memory(size_t port) const {
  if (port >= state_->program().inputs.size()) return usage("there is no input %zu", port);
  return state_->port_memory(state_->program().inputs[port]);
}
Result<device::Argument> Session::output_memory(size_t port) const {
  if (port >= state_->program().outputs.size()) return usage("there is no output %zu", port);
  return state_->port_memory(state_->program().outputs[port]);
}
Status Session::finish() { return state_->finish(); }
PortUse Session::port_use() const { return state_->port_use; }
const char* Session::why_copied() const { return state_->why_copied; }

}  // namespace peri::runtime
