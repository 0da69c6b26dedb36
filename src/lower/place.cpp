// First the device of each buffer, then copies before steps that need a value of the other side, then the order.
#include "lower/place.hpp"

#include <algorithm>
#include <map>

namespace peri::lower {

namespace {
using plan::Buffer;
using plan::BufferKind;
using plan::Program;
using plan::Step;

constexpr uint32_t kAway = 1;  // the device's index

class Placer {
 public:
  Placer(const Placement& placement, Program* program) : how_(placement), p_(*program) {}

  std::vector<size_t> place() {
    for (const Step& s : p_.steps) away_.push_back(may_go(s));
    if (std::none_of(away_.begin(), away_.end(), [](bool a) { return a; })) return numbers(p_.steps.size());
    while (!homes_agree()) {}
    p_.devices.push_back(how_.device);
    for (size_t k = 0; k < p_.buffers.size(); ++k) {
      Buffer& b = p_.buffers[k];
      if (!home_[static_cast<size_t>(owner_[k])]) continue;
      b.device = kAway;
      if (b.kind == BufferKind::kOutput && !how_.ports) b.kind = BufferKind::kScratch;
    }
    std::vector<Step> steps = std::exchange(p_.steps, {});
    for (size_t k = 0; k < steps.size(); ++k) move(k, std::move(steps[k]));
    for (plan::Port& port : p_.outputs)
      if (!how_.ports) port.buffer = at(port.buffer, plan::kHost, BufferKind::kOutput);
    gather();
    order_steps(&p_, how_.lanes);
    return std::move(origin_);
  }

 private:
  static std::vector<size_t> numbers(size_t count) {
    std::vector<size_t> out(count);
    for (size_t k = 0; k < count; ++k) out[k] = k;
    return out;
  }

  bool may_go(const Step& s) const {
    if (!s.binds.empty() || !s.bodies.empty()) return false;
    const bool carries = how_.ports && s.executor == plan::kCopyExecutor && s.reads.size() == 1 && s.writes.size() == 1;
    if (how_.own_only && s.executor != how_.executor && !carries) return false;
    for (const auto* list : {&s.reads, &s.writes})
      for (int32_t b : *list) {
        for (; b >= 0; b = p_.buffers[static_cast<size_t>(b)].alias_of) {
          const Buffer& x = p_.buffers[static_cast<size_t>(b)];
          if (x.dtype == DType::kString || (x.kind == BufferKind::kState && !how_.ports)) return false;
        }
      }
    return true;
  }

  // Memory lies where its steps write it; where steps of both sides do, the second one gets memory of its own if it
  // only took an argument's, else all of them stay on the host. False: something was changed for that, ask again.
  bool homes_agree() {
    owner_ = plan::storages(p_);
    home_.assign(p_.buffers.size(), false);
    std::vector<bool> known(p_.buffers.size(), false);
    for (size_t k = 0; k < p_.buffers.size(); ++k)
      known[k] = p_.buffers[k].kind == BufferKind::kInput || p_.buffers[k].kind == BufferKind::kWeight ||
                 p_.buffers[k].kind == BufferKind::kState;
    if (how_.ports) find_port_homes();
    for (size_t k = 0; k < p_.steps.size(); ++k) {
      Step& s = p_.steps[k];
      for (size_t j = 0; j < s.writes.size(); ++j) {
        if (s.writes[j] < 0) continue;
        const auto root = static_cast<size_t>(owner_[static_cast<size_t>(s.writes[j])]);
        if (!known[root]) {
          known[root] = true;
          home_[root] = away_[k];
        }
        if (home_[root] == away_[k]) continue;
        const bool takes = j < s.shares.size() && s.shares[j] >= 0;
        if (takes && p_.buffers[static_cast<size_t>(s.writes[j])].alias_of >= 0) {
          p_.buffers[static_cast<size_t>(s.writes[j])].alias_of = -1;
          s.shares[j] = -1;
        } else {
          keep_writers(static_cast<int32_t>(root));
        }
        return false;
      }
    }
    return true;
  }
  // An input or state lies on the device where steps touch it and all of them are there.
  void find_port_homes() {
    std::vector<bool> here(p_.buffers.size(), false), there(p_.buffers.size(), false);
    for (size_t k = 0; k < p_.steps.size(); ++k)
      for (const auto* list : {&p_.steps[k].reads, &p_.steps[k].writes})
        for (const int32_t b : *list)
          if (b >= 0) (away_[k] ? there : here)[static_cast<size_t>(owner_[static_cast<size_t>(b)])] = true;
    for (size_t k = 0; k < p_.buffers.size(); ++k)
      if (p_.buffers[k].kind == BufferKind::kInput || p_.buffers[k].kind == BufferKind::kState)
        home_[k] = there[k] && !here[k];
  }
  void keep_writers(int32_t root) {
    for (size_t k = 0; k < p_.steps.size(); ++k)
      for (const int32_t b : p_.steps[k].writes)
        if (b >= 0 && owner_[static_cast<size_t>(b)] == root) away_[k] = false;
  }

  // The buffer that has the value of `b` on a device; a copy step brings it there.
  int32_t at(int32_t b, uint32_t device, BufferKind kind = BufferKind::kScratch) {
    if (b < 0 || p_.buffers[static_cast<size_t>(b)].device == device) return b;
    if (const auto it = copy_of_.find(b); it != copy_of_.end()) return it->second;
    Buffer x = p_.buffers[static_cast<size_t>(b)];
    const bool weight = x.kind == BufferKind::kWeight;
    x.kind = weight ? BufferKind::kWeight : kind;
    x.device = device;
    x.alias_of = -1;
    x.alias_offset = Dim(0);
    p_.buffers.push_back(std::move(x));
    const int32_t to = static_cast<int32_t>(p_.buffers.size()) - 1;
    copy_of_[b] = to;
    if (weight) return to;
    Step copy;
    copy.name = "copy " + p_.buffers[static_cast<size_t>(b)].name;
    copy.executor = plan::kCopyExecutor;
    copy.device = kAway;
    copy.reads = {b};
    copy.writes = {to};
    copy.variants.emplace_back();
    p_.steps.push_back(std::move(copy));
    origin_.push_back(kNoStep);
    return to;
  }

  void move(size_t k, Step s) {
    s.device = away_[k] ? kAway : plan::kHost;
    if (away_[k] && s.executor != plan::kCopyExecutor) s.executor = how_.executor;
    for (int32_t& b : s.reads) b = at(b, s.device);
    for (const int32_t b : s.writes) copy_of_.erase(b);  // it has another value from here on
    p_.steps.push_back(std::move(s));
    origin_.push_back(k);
  }

  void gather() {
    std::vector<Step> steps;
    std::vector<size_t> origin;
    for (const size_t k : long_runs(p_)) {
      steps.push_back(std::move(p_.steps[k]));
      origin.push_back(origin_[k]);
    }
    p_.steps = std::move(steps);
    origin_ = std::move(origin);
  }

  const Placement& how_;
  Program& p_;
  std::vector<bool> away_;      // per step of the old list
  std::vector<int32_t> owner_;  // per buffer of the old list
  std::vector<bool> home_;      // per owner: on the device
  std::map<int32_t, int32_t> copy_of_;
  std::vector<size_t> origin_;
};

// The steps that touched the memory of a buffer since it was last written, that one first.
struct Touched {
  int32_t wrote = -1;
  std::vector<int32_t> read;
};
}  // namespace

std::vector<size_t> place_steps(const Placement& placement, Program* program) {
  return Placer(placement, program).place();
}

void order_steps(Program* program, uint32_t lanes) {
  Program& p = *program;
  const std::vector<int32_t> owner = plan::storages(p);
  std::vector<Touched> touched(p.buffers.size());
  const auto of = [&](int32_t b) -> Touched& { return touched[static_cast<size_t>(owner[static_cast<size_t>(b)])]; };
  std::map<std::pair<uint32_t, uint32_t>, int32_t> last;  // of device and lane
  for (size_t k = 0; k < p.steps.size(); ++k) {
    Step& s = p.steps[k];
    std::vector<int32_t> before;
    for (const int32_t b : s.reads)
      if (b >= 0) before.push_back(of(b).wrote);
    for (const int32_t b : s.writes) {
      if (b < 0) continue;
      before.push_back(of(b).wrote);
      before.insert(before.end(), of(b).read.begin(), of(b).read.end());
    }
    std::erase_if(before, [&](int32_t b) { return b < 0 || p.steps[static_cast<size_t>(b)].device == plan::kHost; });
    if (s.device != plan::kHost) {
      int32_t oldest = INT32_MAX, joined = -1;
      for (uint32_t lane = 0; lane < lanes; ++lane) {
        const auto it = last.find({s.device, lane});
        const int32_t tail = it == last.end() ? -1 : it->second;
        const bool follows = std::find(before.begin(), before.end(), tail) != before.end();
        if (follows && tail > joined) {
          joined = tail;
          s.lane = lane;
        }
        if (joined < 0 && tail < oldest) {
          oldest = tail;
          s.lane = lane;
        }
      }
      last[{s.device, s.lane}] = static_cast<int32_t>(k);
    }
    std::map<std::pair<uint32_t, uint32_t>, int32_t> latest;  // of what it waits for, in each other lane
    for (const int32_t b : before) {
      const Step& x = p.steps[static_cast<size_t>(b)];
      if (x.device == s.device && x.lane == s.lane) continue;
      int32_t& at = latest.emplace(std::pair(x.device, x.lane), b).first->second;
      at = std::max(at, b);
    }
    s.waits_for.clear();
    for (const auto& [lane, step] : latest) s.waits_for.push_back(step);
    for (const int32_t b : s.reads)
      if (b >= 0) of(b).read.push_back(static_cast<int32_t>(k));
    for (const int32_t b : s.writes)
      if (b >= 0) of(b) = {static_cast<int32_t>(k), {}};
  }
}

}  // namespace peri::lower
