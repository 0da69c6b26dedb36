// Arguments and expected answers are made once for a problem; then candidate after candidate.
#include "tune/judge.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/clock.hpp"
#include "device/memory_info.hpp"
#include "device/target.hpp"
#include "exec/entry.hpp"
#include "tune/rivals.hpp"
#include "tune/samples.hpp"
#include "tune/trial.hpp"
#include "tune/work.hpp"

namespace peri::tune {

namespace {
constexpr double kLargestTrialFlops = 2e12;  // of one run: seconds of the fastest kernel, and candidates run often
constexpr double kSmallBytes = 256 << 20;    // so much is there
constexpr double kShareOfMemory = 0.8;       // of what is free
constexpr int64_t kElsewherePositions = 1024;
// A visit to a candidate that others will be held against, and to one that stands alone.
constexpr int64_t kVisitSamples = 3, kOnlySamples = 5;
constexpr double kVisitShare = 1.0 / 3;  // of the budget
// Rounds beyond the second take no more than this share of the judge's time.
constexpr double kMoreShare = 0.01;
constexpr double kKeptBytes = 1 << 30;  // of the trials that wait for their rivals

double numel_of(const ir::Value& v) {
  double n = 1;
  for (const Dim& d : *v.type.shape) n *= d.is_const() ? static_cast<double>(d.value()) : 1.0;
  return n;
}
double bytes_of(const ir::Value& v) { return numel_of(v) * dtype_bits(v.type.dtype) / 8.0; }

double bytes_of(const ir::Graph& region) {
  double bytes = 0;
  for (const auto* list : {&region.inputs, &region.outputs})
    for (const ir::Value* v : *list) bytes += bytes_of(*v);
  return bytes;
}

// Arguments as they are made, in the layout asked for and in the run; results in the run, as they were first,
// row-major, and the same of a peer.
double trial_bytes(const ir::Graph& region) {
  double bytes = 0;
  for (const ir::Value* v : region.inputs) bytes += 3 * bytes_of(*v);
  for (const ir::Value* v : region.outputs) bytes += 5 * bytes_of(*v);
  return bytes;
}
// Every value of the region in float64, those that are computed with their radii.
double reference_bytes(const ir::Graph& region) {
  double bytes = 0;
  for (const auto& v : region.values()) bytes += (v->producer ? 16 : 8) * numel_of(*v);
  return bytes;
}

std::string lacks_memory(const char* what, double bytes) {
  const double available = static_cast<double>(device::host_memory().available_bytes);
  if (bytes <= kSmallBytes || available <= 0 || bytes <= kShareOfMemory * available) return "";
  return format("%s takes %.1f GiB of memory, and %.1f are free", what, bytes / (1 << 30), available / (1 << 30));
}

// What no trial can run alone is taken as its kernel's samples have it, and judged with the engine; the reference would
// be hours slower, and a change of layout has none.
std::string too_large(const ir::Graph& region) {
  double flops = 0;
  for (const ir::Node* n : region.nodes) flops += ops::cost_of(*n).flops;
  if (flops > kLargestTrialFlops) return format("one run of it takes %.0f Gflop: too much to try", flops / 1e9);
  return lacks_memory("to try it", trial_bytes(region));
}

// The answer of one of a provider, for comparison with those of other providers.
struct Peer {
  size_t index = 0;
  const Candidate* candidate = nullptr;
  Verdict verdict;
  std::vector<Tensor> out;
  std::vector<std::pair<size_t, Verdict>> alike = {};  // of the same provider, waiting for its confirmation
};

// One problem, while its candidates are judged.
struct Case {
  const ir::Graph& region;
  const std::vector<bool>& constant;
  const Terms& terms;
  const Told& told;
  const device::Target& target;
  ThreadPool* pool = nullptr;
  const bench::Ceilings& ceilings;
  std::span<const std::byte> rest;
  Given given;
  std::optional<Expected> expected;
  std::string too_dear;  // why there is no expectation, though one was asked for
  std::vector<Peer> peers;
  std::vector<std::unique_ptr<Trial>> trials = {};  // of those that may still be the fastest
  std::vector<Verdict> known = {};                  // what was told last

  void tell(size_t index, const Verdict& v) {
    known[index] = v;
    told(index, &v);
  }

  bool alone() const { return trials.size() < 2; }

  // How many trials may wait: each has its arguments, their packed form and its results.
  size_t most_rivals() const {
    return static_cast<size_t>(std::clamp(kKeptBytes / std::max(1.0, 2 * bytes_of(region)), 2.0, double{kMaxRivals}));
  }

  std::vector<Evidence> evidence() const {
    std::vector<Evidence> out;
    for (const Verdict& v : known) out.push_back(v.evidence);
    return out;
  }

  void keep_rivals() {
    const std::vector<size_t> close = rivals_among(evidence(), most_rivals());
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
        seen, most_rivals(),
        [&](size_t k) {
          Evidence visit;
          if (stopped()) return visit;
          told(k, nullptr);
          if (!time(*candidates[k], *trials[k], &visit).ok()) return Evidence();
          Verdict v = known[k];
          add_visit(visit, &v.evidence);
          tell(k, v);
          return visit;
        },
        [&] { return more() && !stopped(); });
  }

  Verdict one(size_t index, const Candidate& c) {
    Verdict v;
    auto trial = Trial::create(region, constant, c, &given, target, pool, !terms.elsewhere);
    if (!trial.ok()) {
      const ErrorKind kind = trial.error().kind;
      v.lasting = kind != ErrorKind::kMemory;
      const bool says_all = kind == ErrorKind::kMemory || kind == ErrorKind::kInternal || kind == ErrorKind::kAccuracy;
      v.evidence.rejected = (says_all ? "" : "it refuses when it is made: ") + trial.error().text();
      return v;
    }
    std::vector<Tensor> out;
    if (terms.verify) {
      auto error = (*trial)->verify(expected ? &*expected : nullptr, &v.evidence, &out, terms.elsewhere);
      if (!error.ok()) {
        v.lasting = error.error().kind != ErrorKind::kMemory;
        v.evidence.rejected = error.error().text();
        return v;
      }
      v.evidence.shapes = 1;
      if (expected) {
        v.evidence.max_error = *error;
        v.evidence.positions = position_count(*expected);
        if (v.evidence.positions > 0) compare_wholly(index, c, std::move(out), &v);
        if (!v.evidence.rejected.empty()) return v;
      }
    }
    if (terms.measure) {
      const Status timed = time(c, **trial, &v.evidence);
      if (!timed.ok()) {
        v.lasting = timed.error().kind != ErrorKind::kMemory;
        v.evidence.rejected = timed.error().text();
        return v;
      }
    }
    if (terms.verify && !expected) compare_alone(index, c, std::move(out), &v);
    if (!alone()) trials[index] = std::move(*trial);
    return v;
  }

  // A time that the machine cannot reach is an error in the measurement: taken once more, then left out.
  Status time(const Candidate& c, Trial& trial, Evidence* e) {
    const double floor = ceilings.floor_ms(work_of(region, c.offer.flops).least);
    for (int round = 0; round < 2; ++round) {
      PERI_TRY(trial.time(alone() ? terms.budget_ms : terms.budget_ms * kVisitShare,
                          alone() ? kOnlySamples : kVisitSamples, rest, e));
      if (believe_time(floor, ceilings, e)) break;
    }
    return Ok{};
  }

  Peer* peer_of(const Candidate& c, bool same_provider) {
    const auto peer = std::find_if(peers.begin(), peers.end(), [&](const Peer& p) {
      return (p.candidate->kernel->provider == c.kernel->provider) == same_provider;
    });
    return peer == peers.end() ? nullptr : &*peer;
  }

  // Of output `k`, where only positions of it are known: who is right where the two differ. False: not this one; the
  // peer goes if it is not.
  bool settle_dispute(size_t k, const Tensor& out, Verdict* v, Peer** peer) {
    const Expected& e = expected_of(*expected, k);
    if (e.positions.empty()) return true;
    const std::vector<int64_t> disputed = disputed_positions(e, (*peer)->out[k], out);
    if (disputed.empty()) return true;
    auto exact = expected_at(e.region ? *e.region : region, given.row_major(), pool->threads(), disputed);
    if (!exact.ok()) return v->evidence.rejected = "cannot be judged: " + exact.error().text(), false;
    auto mine = compare(*exact, {&out, 1}), theirs = compare(*exact, {&(*peer)->out[k], 1});
    if (!mine.ok()) v->evidence.rejected = mine.error().text();
    if (!theirs.ok()) revoke(*peer, theirs.error().text()), *peer = nullptr;
    return mine.ok();
  }

  // Positions show what is wrong everywhere; an answer of another provider shows what is wrong somewhere. Where the two
  // differ by more than their bounds, the reference says who is right.
  void compare_wholly(size_t index, const Candidate& c, std::vector<Tensor> out, Verdict* v) {
    if (Peer* peer = peer_of(c, false)) {
      for (size_t k = 0; peer && k < out.size(); ++k)
        if (!settle_dispute(k, out[k], v, &peer)) return;
      if (peer) v->evidence.compared_with = peer->candidate->id();
    }
    if (!peer_of(c, true)) peers.push_back({index, &c, *v, std::move(out)});
  }

  // Without a reference: right is what two providers give.
  void compare_alone(size_t index, const Candidate& c, std::vector<Tensor> out, Verdict* v) {
    v->evidence.rejected = "cannot be judged: " + too_dear + ", and no other provider gives the same answer";
    v->lasting = false;  // another provider may come, in a build that asks for more than this one
    for (Peer& p : peers) {
      if (p.candidate->kernel->provider == c.kernel->provider) continue;
      const Result<double> far = agree(region, p.out, out);
      if (!far.ok()) continue;
      v->evidence.rejected.clear();
      v->lasting = true;
      v->evidence.compared_with = p.candidate->id();
      v->evidence.max_error = *far;
      confirm(&p, c.id(), *far);
      break;
    }
    Peer* own = peer_of(c, true);
    if (!own) {
      peers.push_back({index, &c, *v, std::move(out)});
    } else if (!v->evidence.rejected.empty()) {
      const Result<double> far = agree(region, own->out, out);
      if (!far.ok()) return;
      v->evidence.max_error = *far;
      if (own->verdict.evidence.rejected.empty()) {
        v->evidence.rejected.clear();
        v->lasting = true;
        v->evidence.compared_with = own->verdict.evidence.compared_with;
      } else {
        own->alike.emplace_back(index, *v);
      }
    } else if (!own->verdict.evidence.rejected.empty() && agree(region, own->out, out).ok()) {
      confirm(own, v->evidence.compared_with, v->evidence.max_error);
    }
  }

  // Tells that a peer and those like it are right after all.
  void confirm(Peer* p, const std::string& by, double far) {
    if (p->verdict.evidence.rejected.empty()) return;
    p->verdict.evidence.max_error = far;
    p->alike.emplace_back(p->index, p->verdict);
    for (auto& [index, v] : p->alike) {
      v.evidence.rejected.clear();
      v.lasting = true;
      v.evidence.compared_with = by;
      tell(index, v);
    }
    p->verdict = p->alike.back().second;
    p->alike.clear();
  }

  void revoke(Peer* peer, const std::string& why) {
    Verdict v;
    v.evidence.rejected = why;
    tell(peer->index, v);
    peers.erase(peers.begin() + (peer - peers.data()));
  }
};
}  // namespace

bool believe_time(double floor_ms, const bench::Ceilings& ceilings, Evidence* e) {
  if (!e->timed() || e->time_ms >= floor_ms) {
    e->untimed.clear();
    return true;
  }
  e->untimed = format(
      "%.4g ms were measured, and %d thread%s of this machine need%s %.4g ms at %.2f GHz: the kernel "
      "did not do its work while it was timed",
      e->time_ms, ceilings.threads, ceilings.threads == 1 ? "" : "s", ceilings.threads == 1 ? "s" : "", floor_ms,
      ceilings.clock_ghz);
  e->time_ms = -1;
  e->statistic.clear();
  e->samples = e->visits = 0;
  return false;
}

size_t traffic_bytes(double model_bytes) {
  const int64_t known = device::this_cpu().cache_bytes(3);
  const size_t cache = known > 0 ? static_cast<size_t>(known) : size_t{32} << 20;
  const size_t most = std::min(cache + cache / 4, size_t{128} << 20);
  size_t bytes = size_t{64} << 10;
  while (static_cast<double>(bytes) < model_bytes && bytes < most) bytes *= 2;
  return std::min(bytes, most);
}

struct Judge::State {
  device::Target target;
  ThreadPool pool;
  bench::Ceilings ceilings;
  Tensor rest;
  double seconds = 0, more_seconds = 0;  // of judging, and of rounds beyond the second in it
  explicit State(int threads)
      : target(device::cpu_target(threads, exec::libraries())),
        pool(threads),
        ceilings(bench::machine_ceilings(threads)) {}

  // What is read between timed runs; empty if there is no memory for it.
  std::span<const std::byte> between_runs(double model_bytes) {
    const size_t bytes = traffic_bytes(model_bytes);
    if (rest.bytes().size() != bytes) {
      auto made = Tensor::uninitialized(DType::kU8, {static_cast<int64_t>(bytes)});
      if (!made.ok()) return {};
      rest = std::move(made).value();
      std::memset(rest.mutable_data(), 1, bytes);  // pages never written would all be the same page of zeros
    }
    return rest.bytes();
  }
};
Judge::Judge(int threads) : state_(std::make_unique<State>(threads)) {}
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
  if (const std::string why = too_large(region); !why.empty()) {
    Verdict untried;
    untried.evidence.untimed = why;
    untried.lasting = untried.tried = false;
    for (size_t k = 0; k < candidates.size(); ++k) told(k, &untried);
    return;
  }
  auto arguments = make_arguments(region, terms.seed);
  if (!arguments.ok()) return all("cannot be judged: " + arguments.error().text());
  auto given = Given::make(std::move(*arguments), constant);
  if (!given.ok()) return all("cannot be judged: " + given.error().text());
  Case one{region, constant, terms, told, state_->target, &state_->pool, state_->ceilings, {}, std::move(*given),
           {},     {},       {}};
  if (terms.measure) one.rest = state_->between_runs(terms.model_bytes);
  if (terms.verify) one.too_dear = lacks_memory("its reference", trial_bytes(region) + reference_bytes(region));
  if (terms.verify && one.too_dear.empty()) {
    auto expected = make_expected(region, one.given.row_major(), state_->pool.threads(), terms.seed,
                                  terms.elsewhere ? kElsewherePositions : kMostPositions);
    if (expected.ok())
      one.expected = std::move(*expected);
    else if (expected.error().kind == ErrorKind::kRefused)
      one.too_dear = expected.error().text();
    else
      return all("cannot be judged: " + expected.error().text());
  }
  one.trials.resize(candidates.size());
  one.known.resize(candidates.size());
  for (size_t k = 0; k < candidates.size() && !(terms.stop && terms.stop()); ++k) {
    told(k, nullptr);
    const Verdict v = one.one(k, *candidates[k]);
    one.tell(k, v);
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

SampleVerdict Judge::samples(const kernels::Kernel& kernel) {
  return check_samples(kernel, state_->target, &state_->pool);
}

}  // namespace peri::tune
