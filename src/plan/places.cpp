// Rules for each buffer and step, then the order of all accesses to a buffer.
#include "plan/places.hpp"

#include <algorithm>
#include <set>

#include "plan/labels.hpp"
#include "plan/order.hpp"

namespace peri::plan {

namespace {
const Buffer& buffer_at(const Program& p, int32_t b) { return p.buffers[static_cast<size_t>(b)]; }

Status check_buffers(const Program& p) {
  for (size_t k = 0; k < p.buffers.size(); ++k) {
    const Buffer& b = p.buffers[k];
    if (b.device == kHost) continue;
    if (b.dtype == DType::kString)
      return invalid("strings lie on device '%s'", p.devices[b.device].c_str()).at_node(buffer_label(p, k));
  }
  return Ok{};
}

// A copy may have one end on the host.
bool is_crossing(const Program& p, const Step& s) {
  if (s.executor != kCopyExecutor || s.device == kHost || s.reads.size() != 1 || s.writes.size() != 1) return false;
  if (s.reads[0] < 0 || s.writes[0] < 0) return false;
  const uint32_t from = buffer_at(p, s.reads[0]).device, to = buffer_at(p, s.writes[0]).device;
  return (from == kHost && to == s.device) || (from == s.device && to == kHost);
}

Status check_step(const Program& p, size_t k) {
  const Step& s = p.steps[k];
  if (s.device >= p.devices.size())
    return invalid("runs on device %u of %zu", s.device, p.devices.size()).at_node(step_label(p, k));
  if (s.device == kHost && s.lane != 0)
    return invalid("a step of the host has lane %u", s.lane).at_node(step_label(p, k));
  if (s.device != kHost && (!s.binds.empty() || !s.bodies.empty()))
    return invalid("a step that binds dimensions or has bodies runs on device '%s'", p.devices[s.device].c_str())
        .at_node(step_label(p, k))
        .expecting("the host");
  if (is_crossing(p, s)) return Ok{};
  for (const auto* list : {&s.reads, &s.writes})
    for (const int32_t b : *list)
      if (b >= 0 && buffer_at(p, b).device != s.device)
        return invalid("runs on device '%s' and touches buffer %d of device '%s'", p.devices[s.device].c_str(), b,
                       p.devices[buffer_at(p, b).device].c_str())
            .at_node(step_label(p, k))
            .expecting("a copy step between them");
  return Ok{};
}

// The last steps that wrote and read a buffer, by lane.
struct Touched {
  std::vector<int32_t> wrote, read;
};

class Races {
 public:
  explicit Races(const Program& p) : p_(p), order_(p), owner_(storages(p)), touched_(p.buffers.size()) {}

  Status check(size_t k) {
    for (const int32_t b : p_.steps[k].reads) PERI_TRY(behind(k, b, false));
    for (const int32_t b : p_.steps[k].writes) PERI_TRY(behind(k, b, true));
    for (const int32_t b : p_.steps[k].reads) note(k, b, false);
    for (const int32_t b : p_.steps[k].writes) note(k, b, true);
    return Ok{};
  }

 private:
  Status behind(size_t k, int32_t b, bool writes) const {
    if (b < 0) return Ok{};
    const Touched& t = touched_[static_cast<size_t>(owner_[static_cast<size_t>(b)])];
    for (const auto* list : {&t.wrote, &t.read}) {
      if (list == &t.read && !writes) continue;
      for (size_t lane = 0; lane < list->size(); ++lane)
        if ((*list)[lane] > order_.last_before(k, lane))
          return invalid("%s buffer %d and does not wait for step %d, which %s it", writes ? "writes" : "reads", b,
                         (*list)[lane], list == &t.read ? "reads" : "writes")
              .at_node(step_label(p_, k))
              .advise("build the engine again with this version");
    }
    return Ok{};
  }
  void note(size_t k, int32_t b, bool writes) {
    if (b < 0) return;
    Touched& t = touched_[static_cast<size_t>(owner_[static_cast<size_t>(b)])];
    std::vector<int32_t>& list = writes ? t.wrote : t.read;
    if (list.empty()) list.assign(order_.lanes(), -1);
    list[order_.lane_of(k)] = static_cast<int32_t>(k);
  }

  const Program& p_;
  StepOrder order_;
  std::vector<int32_t> owner_;
  std::vector<Touched> touched_;
};
}  // namespace

Status check_device_table(const Program& p, bool body) {
  if (p.devices.empty() || p.devices[0] != kHostDevice) return invalid("the first device is not the host");
  if (p.devices.size() > (body ? 1 : kMaxDevices))
    return invalid("%zu devices", p.devices.size()).expecting(body ? "the host alone in a body" : "at most 16");
  const std::set<std::string> names(p.devices.begin(), p.devices.end());
  if (names.size() != p.devices.size()) return invalid("a device stands twice");
  for (const std::string& name : names)
    if (name.empty() || name.size() > 32 ||
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_:") != std::string::npos)
      return invalid("a device has a bad name").expecting("up to 32 of a-z, 0-9, _ and :");
  return Ok{};
}

Status check_steps_on_devices(const Program& p) {
  for (size_t k = 0; k < p.steps.size(); ++k) PERI_TRY(check_step(p, k));
  if (p.devices.size() == 1) return Ok{};
  PERI_TRY(check_buffers(p));
  std::set<std::pair<uint32_t, uint32_t>> lanes;
  for (const Step& s : p.steps) {
    lanes.emplace(s.device, s.lane);
    if (lanes.size() > kMaxLanes) return invalid("more than %zu lanes", kMaxLanes);
  }
  Races races(p);
  for (size_t k = 0; k < p.steps.size(); ++k) PERI_TRY(races.check(k));
  return Ok{};
}

}  // namespace peri::plan
