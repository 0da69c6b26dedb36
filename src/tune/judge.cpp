// Arguments and expected results are made once per problem; then the candidates are tried one by one.
#include "tune/judge.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.hpp"
#include "device/memory_info.hpp"
#include "device/target.hpp"
#include "exec/cuda_code.hpp"
#include "tune/apart.hpp"
#include "tune/peers.hpp"
#include "tune/rejection.hpp"
#include "tune/rivals.hpp"
#include "tune/samples.hpp"
#include "tune/trial.hpp"
#include "tune/trial_memory.hpp"
#include "tune/work.hpp"

namespace peri::tune {

namespace {
constexpr double kMaxTrialFlops = 2e12;        // of one run: seconds of the fastest kernel, and candidates run often
constexpr int64_t kOtherDimsPositions = 1024;  // a quarter: the tuned dims were judged at kMaxPositions
// A visit to a candidate that others will be held against, and to one that stands alone and is not visited again.
constexpr int64_t kVisitSamples = kSameSamples, kOnlySamples = kVisitSamples + 2;
// Rests on: benchmarks/results/2026-11-22_constants.md.
constexpr double kVisitShare = 1.0 / 3;  // of the budget
// Rounds beyond the second take no more than this share of the judge's time.
constexpr double kMoreShare = 0.01;
// A model of up to this share of the last cache stays in it from run to run, and only leaves the caches of the cores,
// which as many times their bytes replace. Rests on: benchmarks/results/2026-11-23_small_builds.md.
constexpr double kStaysInLast = 0.75;
constexpr size_t kOwnCaches = 2;
// However large the caches: a core that reads 10 GB/s takes 13 ms for so many, of the 20 that a visit has
// (kVisitShare).
constexpr size_t kMaxTraffic = size_t{128} << 20;

// What no trial can run alone is taken as its kernel's samples have it, and judged with the engine; the reference would
// be hours slower, and a change of layout has none.
std::string too_large(const ir::Graph& region) {
  double flops = 0;
  for (const ir::Node* n : region.nodes) flops += ops::cost_of(*n).flops;
  if (flops > kMaxTrialFlops) return format("one run of it takes %.0f Gflop: too much to try", flops / 1e9);
  return device::lacks_host_memory(trial_bytes(region), "to try it takes");
}

std::string cannot_be_judged(const Error& error) {
  return (error.kind == ErrorKind::kMemory ? "" : "cannot be judged: ") + rejection(error);
}

// One problem, while its candidates are judged.
struct Case {
  const ir::Graph& region;
  const std::vector<bool>& constant;
  const Terms& terms;
  const Told& told;
  TrialPlaces& places;
  ThreadPool* pool = nullptr;
  std::span<const std::byte> rest;
  Given given;
  std::optional<Expected> expected;
  std::string too_expensive;  // why there is no expectation, though one was asked for
  Peers peers;
  Spent* spent = nullptr;
  std::vector<std::unique_ptr<Trial>> trials = {};  // of those that may still be the fastest

  bool alone() const { return trials.size() < 2; }

  // How many trials may wait: each has its arguments, their packed form and its results. Those that wait by now are
  // no longer among what is free.
  size_t kept_rivals() const {
    const double each = 2 * bytes_of(region);
    const auto waiting = std::count_if(trials.begin(), trials.end(), [](const auto& t) { return t != nullptr; });
    const double free = static_cast<double>(device::host_memory().available_bytes);
    return most_rivals(each, free <= 0 ? 0 : free + static_cast<double>(waiting) * each);
  }

  std::vector<Evidence> evidence() const {
    std::vector<Evidence> out;
    for (const Verdict& v : peers.known()) out.push_back(v.evidence);
    return out;
  }

  void keep_rivals() {
    const std::vector<size_t> close = rivals_among(evidence(), kept_rivals());
    for (size_t k = 0; k < trials.size(); ++k)
      if (std::find(close.begin(), close.end(), k) == close.end()) trials[k].reset();
  }

  // Visits the rivals among the candidates again.
  void settle(std::span<const Candidate* const> candidates, FunctionRef<bool()> more) {
    const auto stopped = [&] { return terms.stop && terms.stop(); };
    std::vector<Evidence> seen = evidence();
    for (size_t k = 0; k < seen.size(); ++k)
      if (!trials[k]) seen[k].time_ms = -1;
    visit_rivals(
        seen, kept_rivals(),
        [&](size_t k) {
          Evidence visit;
          if (stopped()) return visit;
          told(k, nullptr);
          if (!time(*candidates[k], *trials[k], &visit).ok()) return Evidence();
          Verdict v = peers.known()[k];
          add_visit(visit, &v.evidence);
          peers.tell(k, v);
          return visit;
        },
        [&] { return more() && !stopped(); });
  }

  Verdict one(size_t index, const Candidate& c) {
    Verdict v;
    const auto place = places.of(*c.kernel);
    if (!place.ok()) {
      v.lasting = v.tried = false;
      v.evidence.rejected = std::string(kCannotBeTried) + place.error().text();
      return v;
    }
    int64_t since = now_ns();
    const double waited = (*place)->away() ? exec::code_seconds() : 0;
    auto trial = Trial::create(region, constant, c, &given, **place, pool, !terms.other_dims);
    const double code = (*place)->away() ? exec::code_seconds() - waited : 0;
    spent->code += code;
    spent->ready += std::max(lap(&since) - code, 0.0);
    if (!trial.ok()) {
      const ErrorKind kind = trial.error().kind;
      v.lasting = kind != ErrorKind::kMemory;
      const bool says_all = kind == ErrorKind::kMemory || kind == ErrorKind::kInternal || kind == ErrorKind::kAccuracy;
      v.evidence.rejected = (says_all ? "" : "it refuses when it is made: ") + rejection(trial.error());
      return v;
    }
    told(index, nullptr);
    Answers out;
    if (terms.verify) {
      auto error = (*trial)->verify(expected ? &*expected : nullptr, &v.evidence, &out, terms.other_dims);
      spent->checks += lap(&since);
      if (!error.ok()) {
        v.lasting = error.error().kind != ErrorKind::kMemory;
        v.evidence.rejected = rejection(error.error());
        return v;
      }
      v.evidence.shapes = 1;
      if (expected) {
        v.evidence.max_error = *error;
        v.evidence.positions = position_count(*expected);
        if (v.evidence.positions > 0)
          peers.compare(index, c, *expected, given.row_major(), pool->threads(), std::exchange(out, {}), &v);
        spent->compared += lap(&since);
        if (!v.evidence.rejected.empty()) return v;
      }
    }
    if (terms.measure) {
      const Status timed = time(c, **trial, &v.evidence);
      if (!timed.ok()) {
        v.lasting = timed.error().kind != ErrorKind::kMemory;
        v.evidence.rejected = rejection(timed.error());
        return v;
      }
    }
    if (terms.verify && !expected) peers.compare_alone(index, c, too_expensive, std::move(out), &v);
    if (!alone()) trials[index] = std::move(*trial);
    return v;
  }

  // A time that the machine cannot reach is an error in the measurement: taken once more, then left out.
  Status time(const Candidate& c, Trial& trial, Evidence* e) {
    const Lap timed(&spent->timing);
    PERI_ASSIGN(const TrialPlace* const place, places.of(*c.kernel));
    const double floor = place->ceilings.floor_ms(work_of(region, c.offer.flops).least);
    if (place->away() && floor > 0) e->floor_ms = floor;
    for (int round = 0; round < 2; ++round) {
      PERI_TRY(trial.time(alone() ? terms.budget_ms : terms.budget_ms * kVisitShare,
                          alone() ? kOnlySamples : kVisitSamples, rest, e, terms.model_bytes, least_ms(evidence())));
      if (believe_time(floor, place->ceilings, e)) break;
    }
    return Ok{};
  }
};
}  // namespace

bool believe_time(double floor_ms, const bench::Ceilings& ceilings, Evidence* e) {
  if (!e->timed() || e->time_ms >= floor_ms) {
    e->untimed.clear();
    return true;
  }
  e->untimed = format(
      "%.4g ms were measured, and %d %s%s of this machine need%s %.4g ms at %.2f GHz: the kernel "
      "did not do its work while it was timed",
      e->time_ms, ceilings.threads, std::string(ceilings.unit).c_str(), ceilings.threads == 1 ? "" : "s",
      ceilings.threads == 1 ? "s" : "", floor_ms, ceilings.clock_ghz);
  e->time_ms = -1;
  e->statistic.clear();
  e->samples = e->visits = 0;
  return false;
}

size_t traffic_bytes(double model_bytes, const device::Target& cpu, int threads) {
  const int64_t second = cpu.cache_bytes(2), third = cpu.cache_bytes(3);
  const size_t own = second > 0 ? static_cast<size_t>(second) : size_t{2} << 20;
  const size_t last = third > 0 ? static_cast<size_t>(third) : size_t{32} << 20;
  const bool stays = model_bytes <= kStaysInLast * static_cast<double>(last);
  const size_t most =
      std::min({last + last / 4, kMaxTraffic, stays ? kOwnCaches * own * static_cast<size_t>(threads) : kMaxTraffic});
  size_t bytes = size_t{64} << 10;
  while (static_cast<double>(bytes) < model_bytes && bytes < most) bytes *= 2;
  return std::min(bytes, most);
}

struct Judge::State {
  TrialPlaces places;
  ThreadPool pool;
  Tensor rest;
  double seconds = 0, more_seconds = 0;  // of judging, and of rounds beyond the second in it
  Spent spent;
  State(int threads, std::string device) : places(threads, std::move(device)), pool(threads) {}

  // What is read between timed runs; empty if there is no memory for it.
  std::span<const std::byte> between_runs(double model_bytes) {
    const size_t bytes = traffic_bytes(model_bytes, device::this_cpu(), pool.threads());
    if (rest.bytes().size() != bytes) {
      auto made = Tensor::uninitialized(DType::kU8, {static_cast<int64_t>(bytes)});
      if (!made.ok()) return {};
      rest = std::move(made).value();
      std::fill_n(rest.mutable_data(), bytes, std::byte{1});  // pages never written would all be the same page of zeros
    }
    return rest.bytes();
  }
};
Judge::Judge(int threads, std::string device) : state_(std::make_unique<State>(threads, std::move(device))) {}
Judge::~Judge() = default;

void Judge::judge(const ir::Graph& region, const std::vector<bool>& constant,
                  std::span<const Candidate* const> candidates, const Terms& terms, const Told& told) {
  auto all = [&](const std::string& why) {
    Verdict v;
    v.evidence.rejected = why;
    v.lasting = v.tried = false;
    for (size_t k = 0; k < candidates.size(); ++k) told(k, &v);
  };
  const int64_t start = now_ns();
  foresee(region, constant, candidates);
  if (const std::string why = too_large(region); !why.empty()) {
    Verdict untried;
    untried.evidence.untimed = why;
    untried.lasting = untried.tried = false;
    for (size_t k = 0; k < candidates.size(); ++k) told(k, &untried);
    return;
  }
  int64_t since = now_ns();
  auto arguments = make_arguments(region, terms.seed);
  if (!arguments.ok()) return all(cannot_be_judged(arguments.error()));
  auto given = Given::make(std::move(*arguments), constant);
  state_->spent.arguments += lap(&since);
  if (!given.ok()) return all(cannot_be_judged(given.error()));
  Case one{region,
           constant,
           terms,
           told,
           state_->places,
           &state_->pool,
           {},
           std::move(*given),
           {},
           {},
           {region, candidates.size(), told},
           &state_->spent};
  if (terms.measure) one.rest = state_->between_runs(terms.model_bytes);
  if (terms.verify)
    one.too_expensive = device::lacks_host_memory(trial_bytes(region) + reference_bytes(region), "its reference takes");
  if (terms.verify && one.too_expensive.empty()) {
    auto expected = make_expected(region, one.given.row_major(), state_->pool.threads(), terms.seed,
                                  terms.other_dims ? kOtherDimsPositions : kMaxPositions);
    if (expected.ok())
      one.expected = std::move(*expected);
    else if (expected.error().kind == ErrorKind::kRefused)
      one.too_expensive = expected.error().text();
    else
      return all(cannot_be_judged(expected.error()));
  }
  state_->spent.reference += lap(&since);
  one.trials.resize(candidates.size());
  std::vector<bool> tried(candidates.size());
  const auto passed = [&](size_t k) { return tried[k] && one.peers.known()[k].evidence.right(); };
  while (!(terms.stop && terms.stop())) {
    const std::optional<size_t> next = next_apart(candidates, tried, passed);
    if (!next) break;
    told(*next, nullptr);
    const Verdict v = one.one(*next, *candidates[*next]);
    tried[*next] = true;
    one.peers.tell(*next, v);
    one.keep_rivals();
  }
  double more_since = 0;
  one.settle(candidates, [&] {
    more_since = more_since > 0 ? more_since : seconds_since(start);
    const double spent = state_->seconds + seconds_since(start);
    return state_->more_seconds + (seconds_since(start) - more_since) <= kMoreShare * spent;
  });
  state_->seconds += seconds_since(start);
  if (more_since > 0) state_->more_seconds += seconds_since(start) - more_since;
}

SampleVerdict Judge::samples(const kernels::Kernel& kernel, const std::function<void()>& before) {
  const auto place = state_->places.of(kernel);
  if (!place.ok()) return {0, "cannot be tried: " + place.error().text(), false};
  return check_samples(kernel, **place, &state_->pool, before);
}

void Judge::open_ahead(std::string_view device) { (void)state_->places.at(device); }

void Judge::foresee_samples(const kernels::Kernel& kernel) {
  if (const auto place = state_->places.of(kernel); place.ok()) tune::foresee_samples(kernel, **place, false);
}

Resolved Judge::resolve(const ir::Graph& region, const std::vector<bool>& constant, const Candidate& candidate) {
  const auto place = state_->places.of(*candidate.kernel);
  if (!place.ok()) return {{}, "cannot be tried: " + place.error().text(), false};
  const Lap asked(&state_->spent.asked);
  return resolve_here(region, constant, candidate, (*place)->target, (*place)->device.get());
}

Result<Crossing> Judge::crossing(std::string_view device) {
  PERI_ASSIGN(const TrialPlace* const place, state_->places.at(device));
  if (!place->away()) return invalid("the host is no other place");
  return measure_crossing(place->device.get());
}

void Judge::foresee(const ir::Graph& region, const std::vector<bool>& constant,
                    std::span<const Candidate* const> candidates) {
  for (const Candidate* c : candidates)
    if (device_of(*c->kernel) != state_->places.host().name)
      if (const auto place = state_->places.of(*c->kernel); place.ok())
        exec::foresee_code(*c->kernel, {&region, constant}, c->offer, (*place)->target);
}

bool Judge::lost() { return state_->places.lost(); }
Spent Judge::take_spent() { return std::exchange(state_->spent, {}); }

}  // namespace peri::tune
