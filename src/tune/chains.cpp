// Copies of weights, and two captured chains.
#include "tune/chains.hpp"

#include <algorithm>

#include "bench/graph_clock.hpp"
#include "bench/measure.hpp"
#include "device/capture.hpp"
#include "stats/stats.hpp"

namespace peri::tune {

namespace {
using device::Captured;
using runtime::EnqueueContext;

constexpr int64_t kMaxRounds = 10;  // of each length; their medians count
constexpr double kWarmUpMs = 0.5;   // and one launch: what a first one loads is loaded then
// A launch alone takes a few microseconds more than in a chain: beyond this it is slower than the best by far.
constexpr double kFar = 2, kAloneMs = 0.01;
// Above this time of a launch, a hundred times what an event resolves, shorter chains tell as much.
constexpr double kSlowMs = 0.05;
constexpr int kSlowShort = 2, kSlowLong = 6;
constexpr size_t kGrain = 256;  // the alignment of a device's allocations

// What the launches of a chain read.
class Chain {
 public:
  Chain(const runtime::DeviceStep& step, const ChainTerms& terms) : step_(step), terms_(terms) {}

  Status make_cold() {
    const int64_t last = step_.device->target().cache_bytes(2);
    if (!terms_.cold_weights || last <= 0) return Ok{};
    size_t own = 0;
    for (size_t k = 0; k < step_.reads.size(); ++k)
      if (turns(k)) own += room(k);
    if (std::none_of(terms_.weights.begin(), terms_.weights.end(), [](bool w) { return w; })) return Ok{};
    const size_t twice = 2 * static_cast<size_t>(last);
    PERI_ASSIGN(from_, step_.device->allocate(static_cast<size_t>(last)));
    PERI_ASSIGN(to_, step_.device->allocate(static_cast<size_t>(last)));
    if (own == 0) return Ok{};
    sets_ = std::min<size_t>((twice + own - 1) / own + 1, kLongChain);
    PERI_ASSIGN(copies_, step_.device->allocate(sets_ * own));
    size_t at = 0;
    for (size_t set = 0; set < sets_; ++set)
      for (size_t k = 0; k < step_.reads.size(); ++k) {
        if (!turns(k)) continue;
        PERI_TRY(step_.stream->copy(copies_.address() + at, step_.reads[k].address, step_.reads[k].bytes));
        at += room(k);
      }
    return step_.stream->synchronize();
  }

  Status empty_cache() const {
    return from_.bytes() == 0 ? Status(Ok{}) : step_.stream->copy(to_.address(), from_.address(), from_.bytes());
  }

  Result<std::unique_ptr<Captured>> capture(int launches) const {
    return device::capture(*step_.stream, [&]() -> Status {
      for (int k = 0; k < launches; ++k) {
        const std::vector<EnqueueContext::Argument> reads = reads_of(static_cast<size_t>(k));
        PERI_TRY(step_.instance->enqueue({reads, step_.writes, step_.workspace, step_.fault, step_.stream}));
      }
      return Ok{};
    });
  }

 private:
  // A weight that the step reads where it has it.
  bool turns(size_t k) const { return terms_.weights[k] && step_.reads[k].address.value != 0; }
  size_t room(size_t k) const { return (step_.reads[k].bytes + kGrain - 1) / kGrain * kGrain; }
  std::vector<EnqueueContext::Argument> reads_of(size_t launch) const {
    std::vector<EnqueueContext::Argument> out = step_.reads;
    if (sets_ == 0) return out;
    size_t at = copies_.bytes() / sets_ * (launch % sets_);
    for (size_t k = 0; k < out.size(); ++k)
      if (turns(k)) {
        out[k].address = copies_.address() + at;
        at += room(k);
      }
    return out;
  }

  const runtime::DeviceStep& step_;
  const ChainTerms& terms_;
  size_t sets_ = 0;  // of weights; 0: its own
  device::Memory copies_, from_, to_;
};
}  // namespace

Status time_chains(const runtime::DeviceStep& step, const ChainTerms& terms, Evidence* e) {
  PERI_ASSIGN(bench::GraphClock clock, bench::GraphClock::open(step.device, step.stream));
  Chain chain(step, terms);
  PERI_TRY(chain.make_cold());
  PERI_ASSIGN(const auto one, chain.capture(1));
  PERI_ASSIGN(const std::vector<double> warm,
              bench::sample({.warm_up_seconds = kWarmUpMs * 1e-3, .seconds = 0, .min_samples = 1, .max_samples = 1},
                            [&] { return clock.replay_ms(*one); }));
  const double once = warm.back();
  const bool far = terms.best_ms > 0 && once > kFar * terms.best_ms + kAloneMs;
  const int few = far || once > kSlowMs ? kSlowShort : kShortChain,
            many = far || once > kSlowMs ? kSlowLong : kLongChain;
  const int64_t most = far ? 1 : kMaxRounds, least = std::min(most, terms.least_rounds);
  PERI_ASSIGN(const auto brief, chain.capture(few));
  PERI_ASSIGN(const auto lengthy, chain.capture(many));
  // The warm-up is one round, since the first replay of a graph brings it to the device. It is part of the budget.
  const double left_ms = std::max(terms.budget_ms - (few + many) * once, 0.0);
  const bench::Schedule rounds{
      .warm_up_seconds = 0, .seconds = left_ms * 1e-3, .min_samples = 2 * least, .max_samples = 2 * most};
  PERI_ASSIGN(const std::vector<double> samples,
              bench::sample_batches(rounds, [&](std::vector<double>* into) -> Status {
                for (const Captured* graph : {brief.get(), lengthy.get()}) {
                  PERI_TRY(chain.empty_cache());
                  PERI_ASSIGN(const double ms, clock.replay_ms(*graph));
                  into->push_back(ms);
                }
                return Ok{};
              }));
  const std::vector<double> briefs = bench::every(samples, 2, 0), lengthies = bench::every(samples, 2, 1);
  const double slope = (stats::quantile(lengthies, 0.5) - stats::quantile(briefs, 0.5)) / (many - few);
  e->visits = 1;
  e->workspace_bytes = static_cast<int64_t>(step.workspace.bytes);
  e->spread = -1;
  e->samples = std::ssize(samples);
  if (slope > 0) {
    e->time_ms = slope;
    e->statistic = kChainStatistic;
    return Ok{};
  }
  e->time_ms = -1;
  e->statistic.clear();
  e->samples = e->visits = 0;
  e->untimed = format("%d launches took no longer than %d", many, few);
  return Ok{};
}

}  // namespace peri::tune
