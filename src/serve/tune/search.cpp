// Of equally good settings, the smaller delay and the smaller batch win: they add less latency at low rates.
#include "serve/tune/search.hpp"

#include <algorithm>
#include <cmath>
#include <queue>

#include "base/rng.hpp"
#include "base/stop.hpp"

namespace peri::serve {

int64_t run_ns(const RunTimes& times, int64_t rows) {
  if (times.empty()) return 0;
  const auto above = times.lower_bound(rows);
  if (above == times.begin()) return above->second;
  const auto below = std::prev(above);
  if (above == times.end())
    return static_cast<int64_t>(static_cast<double>(below->second) * static_cast<double>(rows) /
                                static_cast<double>(below->first));
  const double part = static_cast<double>(rows - below->first) / static_cast<double>(above->first - below->first);
  return below->second + static_cast<int64_t>(part * static_cast<double>(above->second - below->second));
}

int64_t longest_queue(const Search& s) {
  const int64_t most = s.policy.sizes.empty() ? 1 : s.policy.sizes.back();
  const double in_time = static_cast<double>(s.objective.ns) * static_cast<double>(s.slots * most) /
                         static_cast<double>(std::max<int64_t>(1, run_ns(s.times, most)));
  return static_cast<int64_t>(std::clamp(4 * in_time, 64.0, 4096.0));
}

QueuePolicy with_settings(QueuePolicy policy, const BatchSettings& settings) {
  std::erase_if(policy.sizes, [&](int64_t s) { return s > settings.most_rows; });
  policy.preferred.clear();
  policy.max_delay_ns = settings.delay_ns;
  return policy;
}

namespace {

// A run in progress: when it ends, and the arrival times that it answers.
struct Run {
  int64_t end_ns;
  std::vector<int64_t> arrivals;
  bool operator<(const Run& other) const { return end_ns > other.end_ns; }  // orders the queue by earliest end
};

class Simulation {
 public:
  Simulation(const QueuePolicy& policy, const RunTimes& times, int slots)
      : scheduler_(policy), times_(times), slots_(slots), expires_(policy.level.timeout_ns > 0) {}
  Seen run(double per_second, int64_t requests, uint64_t seed) {
    Rng rng(seed);
    int64_t now = 0, next = 0;
    uint64_t id = 0;
    while (out_.kept_up && (requests > 0 || scheduler_.waiting() > 0 || !runs_.empty())) {
      while (!runs_.empty() && runs_.top().end_ns <= now) {
        for (const int64_t arrival : runs_.top().arrivals) out_.latency.add(runs_.top().end_ns - arrival);
        runs_.pop();
      }
      for (; requests > 0 && next <= now; --requests) {
        Waiting w;
        w.id = ++id;
        w.expected_ns = run_ns(times_, 1);
        out_.kept_up = scheduler_.submit(w, next) == Admission::kAccepted && out_.kept_up;
        next += std::max<int64_t>(1, static_cast<int64_t>(-std::log(1.0 - rng.uniform()) * 1e9 / per_second));
      }
      cut(now);
      int64_t then = INT64_MAX;
      if (requests > 0) then = next;
      if (!runs_.empty()) then = std::min(then, runs_.top().end_ns);
      if (static_cast<int>(runs_.size()) < slots_)
        if (const auto wake = scheduler_.wake_ns(now)) then = std::min(then, *wake);
      if (then == INT64_MAX) break;
      now = std::max(now + 1, then);
    }
    return out_;
  }

 private:
  void cut(int64_t now) {
    if (expires_ && !scheduler_.expire(now).empty()) out_.kept_up = false;
    while (static_cast<int>(runs_.size()) < slots_) {
      const auto cut = scheduler_.poll(now);
      if (!cut) return;
      Run run{now + run_ns(times_, static_cast<int64_t>(cut->requests.size())), {}};
      for (const Waiting& w : cut->requests) run.arrivals.push_back(w.arrival_ns);
      runs_.push(std::move(run));
    }
  }
  Scheduler scheduler_;
  const RunTimes& times_;
  const int slots_;
  const bool expires_;
  std::priority_queue<Run> runs_;
  Seen out_;
};

std::vector<BatchSettings> candidates(const Search& s) {
  std::vector<int64_t> rows = {1};
  for (const int64_t size : s.policy.sizes)  // each power of two, and the largest
    if (size >= 2 * rows.back() || size == s.policy.sizes.back()) rows.push_back(size);
  std::vector<BatchSettings> out;
  for (const int64_t r : rows) {
    const int64_t run = run_ns(s.times, r);
    if (run > s.objective.ns) continue;
    out.push_back({r, 0});
    if (r > 1)
      for (const int64_t part : {16, 8, 4, 2})
        if (s.objective.ns / part + run < s.objective.ns && s.objective.ns / part >= 50000)
          out.push_back({r, s.objective.ns / part / 1000 * 1000});
  }
  return out;
}

bool better(const TunedPoint& a, const TunedPoint& b) {
  if (a.per_second > 1.02 * b.per_second || b.per_second > 1.02 * a.per_second) return a.per_second > b.per_second;
  if (a.settings.delay_ns != b.settings.delay_ns) return a.settings.delay_ns < b.settings.delay_ns;
  return a.settings.most_rows < b.settings.most_rows;
}

// Moves the best to the front; the rest is ordered by rate, since "about equal" is not transitive.
void put_best_first(std::vector<TunedPoint>* points) {
  std::stable_sort(points->begin(), points->end(),
                   [](const auto& a, const auto& b) { return a.per_second > b.per_second; });
  const double most = points->front().per_second;
  size_t best = 0;
  for (size_t k = 1; k < points->size() && 1.02 * (*points)[k].per_second >= most; ++k)
    if (better((*points)[k], (*points)[best])) best = k;
  std::rotate(points->begin(), points->begin() + static_cast<std::ptrdiff_t>(best),
              points->begin() + static_cast<std::ptrdiff_t>(best) + 1);
}
}  // namespace

Seen simulate(const QueuePolicy& policy, const RunTimes& times, int slots, double per_second, int64_t requests,
              uint64_t seed) {
  return Simulation(policy, times, slots).run(per_second, requests, seed);
}

Result<TunedPoint> largest_rate(const Objective& objective, const BatchSettings& settings, double start, int steps,
                                const Measure& measure) {
  TunedPoint out{settings, 0, 0};
  double low = 0, high = 0, rate = start;
  for (int k = 0; k < steps; ++k) {
    PERI_ASSIGN(const Seen seen, measure(settings, rate));
    const int64_t found = seen.latency.quantile(objective.quantile);
    if (seen.kept_up && seen.latency.count() > 0 && found <= objective.ns) {
      low = rate;
      out.per_second = rate;
      out.quantile_ns = found;
    } else {
      high = rate;
    }
    if (high == 0)
      rate = 1.5 * low;
    else if (low == 0)
      rate = high / 2;
    else
      rate = std::sqrt(low * high);
    if (low > 0 && high > 0 && high < 1.02 * low) break;
  }
  return out;
}

Result<std::vector<TunedPoint>> find_settings(const Search& s, const Measure& measure) {
  const auto simulated = [&](const BatchSettings& settings, double per_second) -> Result<Seen> {
    QueuePolicy policy = with_settings(s.policy, settings);
    policy.level = {longest_queue(s), 0, false, false};
    const double enough = std::max(2000.0, 30 * per_second * static_cast<double>(s.objective.ns) * 1e-9);
    return simulate(policy, s.times, s.slots, per_second, static_cast<int64_t>(std::min(enough, 10000.0)), s.seed);
  };
  std::vector<TunedPoint> ranked;
  for (const BatchSettings& c : candidates(s)) {
    if (stop_asked()) return Error(ErrorKind::kCancelled, "interrupted");
    const double capacity = 1e9 * static_cast<double>(s.slots * c.most_rows) /
                            static_cast<double>(std::max<int64_t>(1, run_ns(s.times, c.most_rows)));
    PERI_ASSIGN(const TunedPoint p, largest_rate(s.objective, c, 0.8 * capacity, 8, simulated));
    if (p.per_second > 0) ranked.push_back(p);
  }
  const auto nothing = [&] {
    return refused("no batch size and delay meet %s", s.objective.text().c_str())
        .but_found(format("a run of one row takes %.4g ms", static_cast<double>(run_ns(s.times, 1)) * 1e-6))
        .advise("a longer time, a smaller model, or more threads for an instance");
  };
  if (ranked.empty()) return nothing();
  put_best_first(&ranked);
  if (!measure) return ranked;
  if (static_cast<int>(ranked.size()) > s.measured) ranked.resize(static_cast<size_t>(s.measured));
  std::vector<TunedPoint> out;
  for (const TunedPoint& p : ranked) {
    PERI_ASSIGN(const TunedPoint found, largest_rate(s.objective, p.settings, 0.85 * p.per_second, 6, measure));
    if (found.per_second > 0) out.push_back(found);
  }
  if (out.empty()) return nothing();
  put_best_first(&out);
  return out;
}

}  // namespace peri::serve
