// Rounds of visits, alternately forwards and backwards.
#include "tune/rivals.hpp"

#include <algorithm>
#include <array>

namespace peri::tune {

namespace {
// Of the trials that wait. A bound on memory alone: where it is met fewer wait at once, and no choice is another.
constexpr double kKeptBytes = 1 << 30;
constexpr double kAlwaysThere = 256 << 20;  // so much memory is
constexpr double kShareOfFree = 0.8;        // the rest is the system's
}  // namespace

bool same_time(double ms, double fastest_ms, double fastest_spread) {
  return ms <= fastest_ms * (1 + std::clamp(fastest_spread, kSameTime, 2 * kSameTime));
}

size_t most_rivals(double each, double free) {
  const double size = std::max(1.0, each);
  const size_t wanted = static_cast<size_t>(std::clamp(kKeptBytes / size, 2.0, double{kMaxRivals}));
  if (free <= 0 || static_cast<double>(wanted) * size <= kAlwaysThere) return wanted;
  const double fit = kShareOfFree * free / size - 1;  // one is being tried
  return fit < 2 ? 0 : std::min(wanted, static_cast<size_t>(fit));
}

void add_visit(const Evidence& visit, Evidence* e) {
  if (!visit.timed()) return;
  if (!e->timed()) {
    e->time_ms = visit.time_ms;
    e->statistic = visit.statistic;
    e->samples = visit.samples;
    e->visits = 1;
    return;
  }
  const double least = std::min(e->time_ms, visit.time_ms), other = std::max(e->time_ms, visit.time_ms);
  // The second least of all visits: the old one, unless the new visit lies below it.
  const double next = e->spread < 0 ? other : std::min(other, e->time_ms * (1 + e->spread));
  e->time_ms = least;
  e->spread = least > 0 ? next / least - 1 : 0;
  e->samples += visit.samples;
  e->visits += 1;
}

bool tells_enough(std::span<const double> samples, double best_ms) {
  std::array<double, kSameSamples> least;
  if (samples.size() < least.size()) return false;
  std::partial_sort_copy(samples.begin(), samples.end(), least.begin(), least.end());
  return least.back() <= least.front() * (1 + kSameTime) || (best_ms > 0 && least.front() > kMaxRivalRatio * best_ms);
}

double least_ms(std::span<const Evidence> candidates) {
  double least = -1;
  for (const Evidence& e : candidates)
    if (e.right() && e.timed() && (least < 0 || e.time_ms < least)) least = e.time_ms;
  return least;
}

std::vector<size_t> rivals_among(std::span<const Evidence> candidates, size_t most) {
  std::vector<size_t> out;
  for (size_t k = 0; k < candidates.size(); ++k)
    if (candidates[k].right() && candidates[k].timed()) out.push_back(k);
  std::stable_sort(out.begin(), out.end(),
                   [&](size_t a, size_t b) { return candidates[a].time_ms < candidates[b].time_ms; });
  if (!out.empty()) {
    const double far = candidates[out[0]].time_ms * kMaxRivalRatio;
    std::erase_if(out, [&](size_t k) { return candidates[k].time_ms > far; });
  }
  out.resize(std::min(out.size(), most));
  return out;
}

void visit_rivals(std::span<Evidence> candidates, size_t most, FunctionRef<Evidence(size_t)> visit,
                  FunctionRef<bool()> more, const Patience& patience) {
  for (int64_t round = 2; round <= patience.visits; ++round) {
    std::vector<size_t> list = rivals_among(candidates, most);
    if (round > 2)
      std::erase_if(list, [&](size_t k) { return candidates[k].spread >= 0 && candidates[k].spread <= patience.same; });
    if (list.empty() || (round > 2 && !more())) return;
    if (round % 2 == 1) std::reverse(list.begin(), list.end());
    for (const size_t k : list) add_visit(visit(k), &candidates[k]);
  }
}

}  // namespace peri::tune
