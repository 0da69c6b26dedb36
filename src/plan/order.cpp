// A vector clock for each step: for each lane the last of its steps that is complete by then.
#include "plan/order.hpp"

#include <algorithm>
#include <map>

namespace peri::plan {

std::vector<Segment> segments(const Program& p) {
  std::vector<Segment> out;
  for (size_t k = 0; k < p.steps.size(); ++k) {
    const uint32_t device = p.steps[k].device;
    if (device == kHost) continue;
    if (out.empty() || out.back().end != k || out.back().device != device) out.push_back({k, k, device});
    out.back().end = k + 1;
  }
  return out;
}

StepOrder::StepOrder(const Program& p) {
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> index = {{{kHost, 0}, 0}};
  for (const Step& s : p.steps) {
    const std::pair<uint32_t, uint32_t> lane{s.device, s.device == kHost ? 0 : s.lane};
    lane_of_.push_back(index.emplace(lane, static_cast<uint32_t>(index.size())).first->second);
  }
  lanes_ = index.size();
  clock_.assign(p.steps.size() * lanes_, -1);
  const auto at = [&](size_t step) { return clock_.begin() + static_cast<std::ptrdiff_t>(step * lanes_); };
  using Clock = std::vector<int32_t>;
  std::vector<Clock> lane(lanes_, Clock(lanes_, -1));              // what is done behind the last step of each
  std::vector<Clock> device(p.devices.size(), Clock(lanes_, -1));  // behind the last segment of each
  const auto join = [&](auto to, const auto& from) {
    std::transform(from, from + static_cast<std::ptrdiff_t>(lanes_), to, to,
                   [](int32_t a, int32_t b) { return std::max(a, b); });
  };
  for (size_t k = 0; k < p.steps.size(); ++k) {
    const Step& s = p.steps[k];
    const size_t own = lane_of_[k];
    const bool begins = k == 0 || p.steps[k - 1].device != s.device;
    if (begins && s.device != kHost)
      for (const auto& [key, l] : index)
        if (key.first == s.device) join(device[s.device].begin(), lane[l].begin());
    join(at(k), lane[own].begin());
    join(at(k), lane[0].begin());
    if (s.device != kHost) join(at(k), device[s.device].begin());
    for (const int32_t w : s.waits_for) {
      join(at(k), at(static_cast<size_t>(w)));
      int32_t& done = *(at(k) + lane_of_[static_cast<size_t>(w)]);
      done = std::max(done, w);
    }
    std::copy(at(k), at(k) + static_cast<std::ptrdiff_t>(lanes_), lane[own].begin());
    lane[own][own] = static_cast<int32_t>(k);
  }
}

Spans::Spans(const Program& p) {
  const StepOrder order(p);
  lanes_ = order.lanes();
  const std::vector<int32_t> owner = storages(p);
  last_.assign((p.buffers.size() + p.steps.size()) * lanes_, -1);
  known_.assign(last_.size(), INT32_MAX);
  const auto row = [&](int32_t buffer) { return static_cast<size_t>(owner[static_cast<size_t>(buffer)]) * lanes_; };
  for (size_t k = 0; k < p.steps.size(); ++k)
    for (const auto* list : {&p.steps[k].reads, &p.steps[k].writes})
      for (const int32_t b : *list) {
        if (b < 0) continue;
        last_[row(b) + order.lane_of(k)] = static_cast<int32_t>(k);
        for (size_t lane = 0; lane < lanes_; ++lane)
          known_[row(b) + lane] = std::min(known_[row(b) + lane], order.last_before(k, lane));
      }
  for (size_t k = 0; k < p.steps.size(); ++k) {
    const size_t own = (p.buffers.size() + k) * lanes_;
    last_[own + order.lane_of(k)] = static_cast<int32_t>(k);
    for (size_t lane = 0; lane < lanes_; ++lane) known_[own + lane] = order.last_before(k, lane);
  }
  for (const Port& o : p.outputs) last_[row(o.buffer)] = INT32_MAX - 1;  // taken out when all is done
}

}  // namespace peri::plan
