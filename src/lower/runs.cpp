// Groups steps of one place: fewer waits for a device, and more steps in one capture.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "lower/place.hpp"
#include "plan/order.hpp"

namespace peri::lower {

namespace {
using plan::Program;
using plan::Step;

// For each step those that have to stand behind it: they read what it writes, or write what it touches, or compute with
// a dimension that it binds.
std::vector<std::set<size_t>> followers(const Program& p) {
  const std::vector<int32_t> owner = plan::storages(p);
  struct Touched {
    size_t wrote = kNoStep;
    std::vector<size_t> read;
  };
  std::vector<Touched> touched(p.buffers.size());
  std::map<std::string, size_t> binds;
  std::vector<std::set<size_t>> out(p.steps.size());
  for (size_t k = 0; k < p.steps.size(); ++k) {
    const Step& s = p.steps[k];
    const auto behind = [&](size_t earlier) {
      if (earlier != kNoStep && earlier != k) out[earlier].insert(k);
    };
    const auto of = [&](int32_t b) -> Touched& { return touched[static_cast<size_t>(owner[static_cast<size_t>(b)])]; };
    for (const std::string& name : s.depends_on)
      if (const auto it = binds.find(name); it != binds.end()) behind(it->second);
    for (const int32_t b : s.reads)
      if (b >= 0) behind(of(b).wrote);
    for (const int32_t b : s.writes) {
      if (b < 0) continue;
      behind(of(b).wrote);
      for (const size_t r : of(b).read) behind(r);
    }
    for (const int32_t b : s.reads)
      if (b >= 0) of(b).read.push_back(k);
    for (const int32_t b : s.writes)
      if (b >= 0) of(b) = {k, {}};
    for (const std::string& name : s.binds) binds[name] = k;
  }
  return out;
}

// All that is ready in one place, in the order given, then in another.
std::vector<size_t> from(uint32_t place, const Program& p, const std::vector<std::set<size_t>>& followers) {
  std::vector<size_t> waiting(p.steps.size(), 0), out;
  for (const auto& list : followers)
    for (const size_t k : list) ++waiting[k];
  std::map<uint32_t, std::set<size_t>> ready;
  for (size_t k = 0; k < p.steps.size(); ++k)
    if (waiting[k] == 0) ready[p.steps[k].device].insert(k);
  while (out.size() < p.steps.size()) {
    if (ready[place].empty())
      place = std::find_if(ready.begin(), ready.end(), [](const auto& r) { return !r.second.empty(); })->first;
    std::set<size_t>& own = ready[place];
    const size_t k = *own.begin();
    own.erase(own.begin());
    out.push_back(k);
    for (const size_t f : followers[k])
      if (--waiting[f] == 0) ready[p.steps[f].device].insert(f);
  }
  return out;
}

size_t changes(const Program& p, const std::vector<size_t>& order) {
  size_t out = 0;
  for (size_t k = 1; k < order.size(); ++k) out += p.steps[order[k]].device != p.steps[order[k - 1]].device;
  return out;
}
}  // namespace

std::vector<size_t> long_runs(const Program& p) {
  std::vector<size_t> best(p.steps.size());
  std::iota(best.begin(), best.end(), size_t{0});
  const size_t before = changes(p, best);
  if (before < kManyChanges) return best;
  const std::vector<std::set<size_t>> after = followers(p);
  size_t fewest = before / 2;
  for (uint32_t place = 0; place < p.devices.size(); ++place) {
    std::vector<size_t> order = from(place, p, after);
    const size_t count = changes(p, order);
    if (count >= fewest) continue;
    fewest = count;
    best = std::move(order);
  }
  return best;
}

}  // namespace peri::lower
