// Decides the candidates of a problem: cache entries, verdicts of the worker, settings of the fastest, other
// sizes.
#include "tune/tuner_state.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "problem/problem.hpp"
#include "tune/apart.hpp"
#include "tune/cache_keys.hpp"
#include "tune/contained_judge.hpp"
#include "tune/other_dims.hpp"
#include "tune/rejection.hpp"
#include "tune/resolved.hpp"
#include "tune/rivals.hpp"

namespace peri::tune {

bool Tuner::State::recall(const std::string& key, const ir::Graph& region, Candidate* c) {
  if (!cache) return false;
  std::optional<Evidence> known = cache->find(key, candidate_key(*c, region));
  if (!known) return false;
  const bool timed = known->timed() || !known->untimed.empty(), verified = !options.verify || known->max_error >= 0;
  if (known->right() && !(timed && verified)) return false;
  known->since = std::min(known->since, stats.begun - 1);  // seconds: a build may end in the one the next begins in
  c->evidence = std::move(*known);
  ++stats.from_cache;
  return true;
}

void Tuner::State::leave_untried(Candidates* all) {
  if (std::none_of(all->list.begin(), all->list.end(),
                   [&](const Candidate& c) { return c.evidence.right() && c.evidence.tried(); })) {
    ++stats.untried;
    return;
  }
  for (Candidate& c : all->list)
    if (c.evidence.right() && !c.evidence.tried())
      c.evidence.rejected = std::string(kNotTried) + "the build had no more time";
}

Judge& Tuner::State::here() {
  stats.worker = false;
  if (!judge) judge = std::make_unique<Judge>(options.threads, options.device);
  return *judge;
}

RemoteJudge* Tuner::State::worker() {
  if (remote || !stats.worker) return remote.get();
  auto started = RemoteJudge::start(options.worker, options.threads, kPatienceS, options.device);
  if (started.ok())
    remote = std::move(*started);
  else {
    stats.worker_trouble = started.error().text();
    stats.worker = false;
  }
  return remote.get();
}

const SampleVerdict& Tuner::State::samples(const kernels::Kernel& kernel, const std::string& library) {
  if (const auto known = sampled.find(&kernel); known != sampled.end()) return known->second;
  const std::string name = samples_key(kernel, library);
  // What an interrupt came before is not known; the build says of its steps that they are not verified.
  static const SampleVerdict kUnknown = {0, "", false};
  std::optional<SampleVerdict> v;
  if (cache) v = cache->find_samples(name);
  if (!v && interrupted && interrupted()) return kUnknown;
  if (!v) {
    const int64_t start = now_ns();
    if (RemoteJudge* w = worker()) {
      auto told = w->samples(kernel, interrupted);
      if (!told.ok() && told.error().kind == ErrorKind::kCancelled) return kUnknown;
      if (told.ok()) v = std::move(*told);
    }
    if (!v) v = samples_contained(here(), kernel);
    if (cache && v->lasting) cache->store_samples(name, *v);
    stats.sample_seconds += seconds_since(start);
    stats.samples_spent += v->spent;
    stats.kernels[std::string(kernel.name)].sample_seconds += seconds_since(start);
  }
  KernelRuns& told = stats.kernels[std::string(kernel.name)];
  told.samples = v->samples;
  told.samples_left_out = v->left_out;
  told.samples_unmade = v->unmade;
  told.failed = v->failed;
  ++stats.kernels_sampled;
  stats.sample_runs += v->samples;
  stats.kernels_refused += !v->failed.empty();
  return sampled.emplace(&kernel, std::move(*v)).first->second;
}

std::vector<Verdict> Tuner::State::judged(const ir::Graph& region, const std::vector<bool>& constant,
                                          const std::string& key, std::vector<Candidate*> fresh, const Terms& terms) {
  Verdict none;
  none.tried = false;  // until it is told
  std::vector<Verdict> verdicts(fresh.size(), none);
  std::vector<size_t> left(fresh.size());
  for (size_t k = 0; k < fresh.size(); ++k) left[k] = k;
  std::vector<const Candidate*> list(fresh.begin(), fresh.end());
  std::vector<bool> settled(fresh.size(), false);
  if (cache) cache->store_problem(region, constant);
  const Told told = [&](size_t at, const Verdict* v) {
    if (!v) return;
    const size_t k = left[at];
    Candidate* c = fresh[k];
    settled[k] = true;
    verdicts[k] = *v;
    verdicts[k].evidence.since = wall_seconds();
    c->evidence = verdicts[k].evidence;
    if (cache && v->lasting) cache->store(key, candidate_key(*c, region), c->evidence);
  };
  RemoteJudge* w = worker();
  const Status done = w ? w->judge(region, constant, list, terms, told) : refused("no worker");
  if (!done.ok()) {
    if (w) stats.worker_trouble = done.error().text();
    std::erase_if(left, [&](size_t k) { return settled[k]; });
    list.clear();
    for (size_t k : left) list.push_back(fresh[k]);
    judge_contained(here(), region, constant, list, terms, told);
  }
  if (judge) stats.trials_spent += judge->take_spent();
  if (remote) stats.trials_spent += remote->take_spent();
  for (const Verdict& v : verdicts) {
    stats.measured += v.evidence.timed();
    stats.untimed += !v.evidence.untimed.empty();
    stats.rejected += !v.evidence.right() && v.lasting;
    stats.runs += v.evidence.runs;
    stats.shared_runs += v.evidence.shared_runs;
  }
  return verdicts;
}

void Tuner::State::decide_new(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key,
                              size_t first, Candidates* all) {
  const Terms terms{options.measure,   options.verify,      false,       options.seed,
                    options.budget_ms, options.model_bytes, options.stop};
  std::vector<std::pair<Candidate*, Evidence>> kept;  // of those that are tried once more
  std::vector<Candidate*> fresh;
  for (size_t k = first; k < all->list.size(); ++k)
    if (!recall(key, region, &all->list[k])) fresh.push_back(&all->list[k]);
  // A worker that died took the answers along that later ones were to be held against: these come twice.
  for (int round = 0; round < 2 && !stopped(); ++round, fresh.clear()) {
    if (options.verify) {
      const std::vector<Candidate*> again = tried_apart(all->list, fresh);
      if (round == 0 && first == 0) stats.from_cache -= static_cast<int64_t>(again.size());
      for (Candidate* c : again) kept.emplace_back(c, std::exchange(c->evidence, {}));
      fresh.insert(fresh.begin(), again.begin(), again.end());
      std::erase_if(fresh, [&](Candidate* c) {
        return !samples_late(*c->kernel) &&
               !(c->evidence.rejected = samples(*c->kernel, c->offer.library).failed).empty();
      });
    }
    if (!fresh.empty()) judged(region, constant, key, fresh, terms);
  }
  for (auto& [c, known] : kept)  // a stop came first
    if (!c->evidence.tried()) c->evidence = std::move(known);
}

void Tuner::State::decide_other_dims(const ir::Graph& region, const std::vector<bool>& constant, const ir::Graph& there,
                                     Candidates* all) {
  if (stopped()) {
    for (Candidate& c : all->list) c.evidence.skipped += c.evidence.right() ? 1 : 0;
    return;
  }
  const Terms terms{false, true, true, options.seed, options.budget_ms, options.model_bytes, options.stop};
  const std::string key = problem::identity(there, constant) + " at other dims";
  std::vector<Candidate*> right;
  for (Candidate& c : all->list)
    if (c.evidence.right()) right.push_back(&c);
  judge_other_dims(region, constant, there, target, right, [&](const ir::Graph& g, std::span<Candidate* const> list) {
    Verdict none;
    none.tried = false;
    std::vector<Verdict> verdicts(list.size(), none);
    std::vector<Candidate*> fresh;
    std::vector<size_t> at;
    for (size_t k = 0; k < list.size(); ++k) {
      const std::optional<Evidence> known = cache ? cache->find(key, candidate_key(*list[k], g)) : std::nullopt;
      if (known && (!known->right() || known->max_error >= 0)) {
        verdicts[k].evidence = *known;
        verdicts[k].tried = true;
      } else {
        fresh.push_back(list[k]);
        at.push_back(k);
      }
    }
    ++stats.other_dims;
    if (!fresh.empty() && !stopped()) {
      const std::vector<Verdict> now = judged(g, constant, key, fresh, terms);
      for (size_t k = 0; k < at.size(); ++k) verdicts[at[k]] = now[k];
    }
    for (size_t k = 0; k < list.size(); ++k) count_runs(*list[k], verdicts[k].evidence);
    return verdicts;
  });
  std::stable_partition(all->list.begin(), all->list.end(), [](const Candidate& c) { return c.evidence.right(); });
}

void Tuner::State::decide_later(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key,
                                std::vector<Candidate> later, bool all_known, Candidates* all) {
  // Settings of a kernel seldom differ by more: of 27 whose constants were varied four- to sixteenfold one did.
  // Rests on: benchmarks/results/2026-11-22_constants.md.
  constexpr double kCloseFirst = 1.5;
  const size_t known = all->list.size();
  double fastest = 0;
  for (const Candidate& c : all->list)
    if (c.evidence.right() && c.evidence.timed() && (fastest == 0 || c.evidence.time_ms < fastest))
      fastest = c.evidence.time_ms;
  const auto first_of = [&](const kernels::Kernel* kernel) -> const Evidence* {
    for (size_t k = 0; k < known; ++k)
      if (const Candidate& c = all->list[k]; c.kernel == kernel && c.evidence.right() && c.evidence.timed())
        return &c.evidence;
    return nullptr;
  };
  const auto right_of = [&](std::string_view provider) {
    return std::any_of(all->list.begin(), all->list.begin() + static_cast<std::ptrdiff_t>(known),
                       [&](const Candidate& c) { return c.kernel->provider == provider && c.evidence.right(); });
  };
  for (Candidate& c : later) {
    const Evidence* const first = first_of(c.kernel);
    // What an earlier build took for close is close: times that were visited again would say otherwise now and then.
    const bool seen = all_known && cache && cache->find(key, candidate_key(c, region)).has_value();
    const bool close = !all_known && first && first->time_ms <= kCloseFirst * fastest;
    if (seen || (c.turn == Turn::kLastResort ? !right_of(c.kernel->provider) : close))
      all->list.push_back(std::move(c));
    else if (first)
      all->refusals.push_back(
          {c.id(), format("not tried: the first of its kernel took %.1f times the fastest", first->time_ms / fastest)});
    else
      all->refusals.push_back({c.id(), "not tried: expected far behind others of its provider"});
  }
  if (all->list.size() > known) decide_new(region, constant, key, known, all);
}

void Tuner::State::decide_first_right(const ir::Graph& region, const std::vector<bool>& constant,
                                      const std::string& key, std::span<const ir::Graph> also, Candidates* all) {
  const auto tried = std::stable_partition(all->list.begin(), all->list.end(), [](const Candidate& c) {
    return c.evidence.tried() || !(c.evidence.right() || c.waits);
  });
  std::vector<Candidate> later(std::make_move_iterator(tried), std::make_move_iterator(all->list.end()));
  all->list.erase(tried, all->list.end());
  const auto enough = [&] {
    return std::any_of(all->list.begin(), all->list.end(), [&](const Candidate& c) {
      return c.evidence.right() && std::all_of(also.begin(), also.end(), [&](const ir::Graph& g) {
               return offered_for(without_sharing(c), g, constant, target).has_value();
             });
    });
  };
  const std::string here = problem::identity(region, constant);
  const auto at_other_dims = [&](Candidates* some) {
    for (const ir::Graph& g : also)
      if (problem::identity(g, constant) != here) decide_other_dims(region, constant, g, some);
  };
  at_other_dims(all);
  auto next = later.begin();
  for (; next != later.end() && !enough() && !stopped(); ++next) {
    Candidates one;
    next->waits = false;
    next->evidence.rejected.clear();
    one.list.push_back(std::move(*next));
    decide_new(region, constant, key, 0, &one);
    at_other_dims(&one);
    all->list.push_back(std::move(one.list[0]));
  }
  const auto right = [](const Candidate& c) { return c.evidence.right(); };
  const auto wrong = std::stable_partition(all->list.begin(), all->list.end(), right);
  const bool any = wrong != all->list.begin();  // none only where the build was stopped: then the guess is taken
  for (; next != later.end(); ++next) {
    next->waits = any || !stopped();
    next->evidence.rejected =
        next->waits ? std::string(kNotTried) + "without tuning the first that is right is taken" : "";
    all->list.push_back(std::move(*next));
  }
}

void Tuner::State::decide(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key,
                          Candidates* all) {
  if (first_right()) {
    decide_first_right(region, constant, key, {}, all);
    if (stopped()) leave_untried(all);
    for (const Candidate& c : all->list) count_runs(c, c.evidence);
    return;
  }
  if (options.measure && !stopped())
    add_resolved(region, constant, key, {cache.get(), [&] { return worker(); }, [&]() -> Judge& { return here(); }},
                 all);
  const auto waits = std::stable_partition(all->list.begin(), all->list.end(),
                                           [](const Candidate& c) { return c.turn == Turn::kFirst; });
  std::vector<Candidate> later(std::make_move_iterator(waits), std::make_move_iterator(all->list.end()));
  all->list.erase(waits, all->list.end());
  const int64_t before = stats.measured;
  decide_new(region, constant, key, 0, all);
  if (!later.empty()) decide_later(region, constant, key, std::move(later), stats.measured == before, all);
  if (stopped()) leave_untried(all);
  put_fastest_first(&all->list);
  if (options.measure && options.settings > 0 && !stopped()) turn(region, constant, key, all);
  for (const Candidate& c : all->list) {
    stats.compared += !c.evidence.compared_with.empty();
    count_runs(c, c.evidence);
  }
}

void Tuner::State::turn(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key,
                        Candidates* all) {
  if (all->list.empty() || !all->list[0].evidence.timed() || !all->list[0].evidence.right()) return;
  const Candidate fastest = all->list[0];
  const size_t known = all->list.size();
  for (std::string& config :
       kernels::settings_of(*fastest.kernel, fastest.offer.config, static_cast<size_t>(options.settings))) {
    all->list.push_back({fastest.kernel, fastest.offer});
    all->list.back().offer.config = std::move(config);
    plan_needs(region, constant, target, &all->list.back());
  }
  decide_new(region, constant, key, known, all);
  if (stopped()) leave_untried(all);
  put_fastest_first(&all->list);
}

}  // namespace peri::tune
