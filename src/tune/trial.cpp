// The forms in which a candidate is run, the checks of each, and timing.
#include "tune/trial.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/clock.hpp"
#include "bench/measure.hpp"
#include "exec/entry.hpp"
#include "runtime/engine.hpp"
#include "tune/away.hpp"
#include "tune/chains.hpp"
#include "tune/one_step.hpp"
#include "tune/rivals.hpp"
#include "tune/sharing.hpp"

namespace peri::tune {

namespace {
// Up to here tasks of the further forms run on one thread, so that their order is what it says; beyond, the order is
// that in which threads take them, and tasks are run backwards in one form only. At 20 GFLOP/s of a thread that is 10
// ms a form.
constexpr double kMaxSerialFlops = 2e8;

using Placement = runtime::Session::Placement;

// Which memory results have and in which order tasks run.
struct Form {
  std::vector<int> shared;  // for each output: the input whose memory it takes, or -1
  runtime::TaskOrder order = {};
  bool shares() const {
    return std::any_of(shared.begin(), shared.end(), [](int k) { return k >= 0; });
  }
};

Error wrong(const std::string& what) { return {ErrorKind::kAccuracy, what}; }

// What a session tells of the one step it runs. A failed check names itself.
Error told(const char* when, Error e) {
  e.node.clear();
  if (e.kind == ErrorKind::kMemory) return e;
  return wrong((e.kind == ErrorKind::kInternal ? "" : when) + e.text());
}

// The candidate as an engine in which these results may take the memory of arguments.
struct Made {
  OneStep one;
  std::vector<int> shared;
  std::unique_ptr<runtime::Session> session;
  bool apart = false;           // its last run left arguments as they were given, and results in memory of their own
  std::vector<uint64_t> given;  // of a device: checksums of the arguments as they were brought there
};

// The bytes of a buffer after a run, as they lie in memory.
struct Held {
  Tensor copied;  // from a device
  std::span<const std::byte> bytes;
};
}  // namespace

struct Trial::State {
  const ir::Graph* region = nullptr;
  std::vector<bool> weights;
  Candidate candidate;
  Given* given = nullptr;
  TrialPlace place{device::Target()};
  ThreadPool* pool = nullptr;
  bool choosing = true;
  double flops = 0;
  std::vector<uint64_t> first_sums;         // of a device: checksums of the first run's results
  std::vector<std::unique_ptr<Made>> made;  // the first with every sharing that is offered

  std::vector<int> offered() const { return sharing_of(*region, candidate.offer); }
  std::vector<Form> forms(bool brief) const;
  Result<Made*> engine_with(const std::vector<int>& shared);
  Status run(Made* m, const Form& form);
  Status check_arguments(Made* m, const Form& form) const;
  Status check_sums(Made* m, const Form& form) const;
  Result<Held> held(Made* m, int32_t buffer) const;
  Result<Tensor> answer(Made* m, size_t k) const;
  Result<Tensor> row_major(const Tensor& physical, size_t k) const;
  Status take_answer(Made* m, size_t k, const Expected* expected, Answers* answers, std::vector<Tensor>* first) const;
  Status same_bits(Made* m, const std::vector<Tensor>& first, const Form& form) const;
  Status cool(Made* m, std::span<const std::byte> rest) const;
  Status time_away(Made* m, double budget_ms, int64_t least_rounds, double model_bytes, double best_ms,
                   Evidence* evidence) const;
};
Trial::Trial() : state_(std::make_unique<State>()) {}
Trial::~Trial() = default;

std::vector<Form> Trial::State::forms(bool brief) const {
  const bool cheap = flops <= kMaxSerialFlops;
  const std::vector<int> apart(region->outputs.size(), -1), all = offered();
  std::vector<Form> out = {{apart}};
  std::vector<std::vector<int>> sharings;
  for (size_t k = 0; k < all.size(); ++k) {
    if (all[k] < 0) continue;
    sharings.push_back(apart);
    sharings.back()[k] = all[k];
  }
  if (sharings.size() > 1) sharings.push_back(all);
  const runtime::TaskOrder back = {true, cheap};
  if (cheap || (sharings.empty() && !brief)) out.push_back({apart, back});
  for (const std::vector<int>& shared : sharings) {
    out.push_back({shared, back});
    if (cheap) out.push_back({shared, {false, true}});
  }
  return out;
}

Result<Made*> Trial::State::engine_with(const std::vector<int>& shared) {
  for (const auto& m : made)
    if (m->shared == shared) return m.get();
  auto m = std::make_unique<Made>();
  m->shared = shared;
  PERI_ASSIGN(m->one, one_step(*region, weights, candidate, shared, place.name));
  runtime::WeightSource source;
  for (size_t k = 0; k < region->inputs.size(); ++k) {
    PERI_ASSIGN(Tensor t, given->in_layout(k, candidate.offer.inputs[k]));
    source.tensors.push_back(std::move(t));
  }
  static const std::vector<const runtime::Executor*> kExecutors = exec::table();
  runtime::EngineOptions options;
  options.executors = kExecutors;
  options.machine = {place.target.isas, place.target.libraries};
  if (place.away()) options.devices.push_back(place.device);
  options.threads = pool->threads();
  options.choosing = choosing;
  PERI_ASSIGN(const auto engine, runtime::Engine::create(m->one.program, std::move(source), options));
  PERI_ASSIGN(m->session, runtime::Session::create_body(engine));
  m->session->use_pool(pool);
  m->session->place(Placement::kSeparate);
  runtime::Session* session = m->session.get();
  session->set_step_hook([session, step = m->one.step](size_t k, bool before) {
    if (before && k == step) session->poison_results(k);
  });
  PERI_TRY(session->prepare({}));
  if (place.checksums) {
    PERI_ASSIGN(m->given, given_sums(*session, m->one.step, weights, *place.checksums));
  }
  made.push_back(std::move(m));
  return made.back().get();
}

Result<std::unique_ptr<Trial>> Trial::create(const ir::Graph& region, const std::vector<bool>& weights,
                                             const Candidate& c, Given* given, const TrialPlace& place,
                                             ThreadPool* pool, bool choosing) {
  std::unique_ptr<Trial> trial(new Trial());
  State& s = *trial->state_;
  s.region = &region;
  s.weights = weights;
  s.candidate = {c.kernel, c.offer};
  s.given = given;
  s.place = place;
  s.pool = pool;
  s.choosing = choosing;
  for (const ir::Node* n : region.nodes) s.flops += ops::cost_of(*n).flops;
  PERI_TRY(check_sharing(region, weights, c.offer));
  auto made = s.engine_with(s.offered());
  if (!made.ok()) {
    Error e = std::move(made).error();
    e.node.clear();
    return e;
  }
  return trial;
}

Status Trial::State::run(Made* m, const Form& form) {
  runtime::Session& session = *m->session;
  session.place(form.shares() ? Placement::kGuarded : Placement::kSeparate);
  session.order(form.order);
  m->apart = false;
  PERI_TRY(session.prepare({}));
  if (!place.away()) session.poison();  // elsewhere the hook poisons what the step writes, and all else is brought
  auto done = session.run({});
  if (!done.ok()) return told("its run reports: ", std::move(done).error());
  m->apart = !form.shares();
  return check_arguments(m, form);
}

Result<Held> Trial::State::held(Made* m, int32_t buffer) const {
  Held out;
  if (!place.away()) {
    PERI_ASSIGN(out.bytes, m->session->memory_of(buffer));
    return out;
  }
  PERI_ASSIGN(out.copied, m->session->buffer_contents(buffer));
  out.bytes = out.copied.bytes();
  return out;
}

Status Trial::State::check_sums(Made* m, const Form& form) const {
  PERI_ASSIGN(const std::vector<uint64_t> now, read_sums(*m->session, m->one.step, *place.checksums));
  for (size_t k = 0; k < now.size(); ++k)
    if (now[k] != m->given[k] &&
        std::find(form.shared.begin(), form.shared.end(), static_cast<int>(k)) == form.shared.end())
      return wrong(format("it changed its input %zu", k));
  return Ok{};
}

// What no result took must be as it was given; of weights on the host the guards say more.
Status Trial::State::check_arguments(Made* m, const Form& form) const {
  if (place.checksums) return check_sums(m, form);
  for (size_t k = 0; k < weights.size(); ++k) {
    if ((weights[k] && !place.away()) ||
        std::find(form.shared.begin(), form.shared.end(), static_cast<int>(k)) != form.shared.end())
      continue;
    PERI_ASSIGN(const Tensor t, given->in_layout(k, candidate.offer.inputs[k]));
    if (t.bytes().empty()) continue;
    if (weights[k]) {
      PERI_ASSIGN(const runtime::DeviceStep step, m->session->device_step(m->one.step));
      if (!step.reads[k].address.value) continue;  // the step has it in a form of its own
    }
    PERI_ASSIGN(const Held now, held(m, m->one.arguments[k]));
    if (std::memcmp(now.bytes.data(), t.data(), now.bytes.size()) != 0)
      return wrong(format("it changed its input %zu", k));
  }
  return given->check_weights();
}

// As it lies in memory, in the layout it was given in.
Result<Tensor> Trial::State::answer(Made* m, size_t k) const {
  const ir::Value& v = *region->outputs[k];
  PERI_ASSIGN(Tensor t,
              Tensor::uninitialized(v.type.dtype, physical_dims(kernels::dims_of(v), candidate.offer.outputs[k])));
  if (t.bytes().empty()) return t;
  PERI_ASSIGN(const Held now, held(m, m->one.results[k]));
  std::memcpy(t.mutable_data(), now.bytes.data(), now.bytes.size());
  return t;
}

Result<Tensor> Trial::State::row_major(const Tensor& physical, size_t k) const {
  return from_layout(physical, candidate.offer.outputs[k], kernels::dims_of(*region->outputs[k]));
}

// Result `k` as it lies in memory and row-major; what is too large is read in parts and leaves nothing in `first`.
Status Trial::State::take_answer(Made* m, size_t k, const Expected* expected, Answers* answers,
                                 std::vector<Tensor>* first) const {
  const ir::Value& v = *region->outputs[k];
  Tensor t, &out = answers->out.emplace_back();
  std::vector<int64_t>& parts = answers->parts.emplace_back();
  if (candidate.offer.outputs[k].row_major() && picks(place, v, expected, k)) {
    parts = positions_to_read(v, *expected, k);
    PERI_ASSIGN(out, picked_result(*m->session, m->one.step, k, v, parts, place));
  } else {
    PERI_ASSIGN(t, answer(m, k));
    PERI_ASSIGN(out, row_major(t, k));
  }
  first->push_back(std::move(t));
  return Ok{};
}

// Elements count; what pads a layout, or the last byte, may be anything.
Status Trial::State::same_bits(Made* m, const std::vector<Tensor>& first, const Form& form) const {
  std::vector<uint64_t> sums;
  if (place.checksums) {
    PERI_ASSIGN(sums, written_sums(*m->session, m->one.step, *place.checksums));
  }
  for (size_t k = 0; k < first.size(); ++k) {
    if (!sums.empty() && sums[k] == first_sums[k]) continue;
    if (!first[k].defined())
      return wrong(format("output %zu depends on which run it is", k)).expecting("the same bits");
    if (first[k].bytes().empty()) continue;
    PERI_ASSIGN(const Held memory, held(m, m->one.results[k]));
    if (std::memcmp(first[k].data(), memory.bytes.data(), memory.bytes.size()) == 0) continue;
    PERI_ASSIGN(const Tensor now, answer(m, k));
    PERI_ASSIGN(const Tensor a, row_major(first[k], k));
    PERI_ASSIGN(const Tensor b, row_major(now, k));
    const std::optional<int64_t> element = first_difference(a, b);
    if (!element) continue;
    return wrong(format("output %zu at %lld depends on %s", k, static_cast<long long>(*element),
                        form.shares()  ? "whether results share memory of arguments"
                        : place.away() ? "which run it is"
                                       : "the order of tasks"))
        .expecting("the same bits");
  }
  return Ok{};
}

Result<double> Trial::verify(const Expected* expected, Evidence* evidence, Answers* answers, bool brief) {
  State& s = *state_;
  std::vector<Tensor> first;
  double worst = 0;
  for (const Form& form : s.forms(brief)) {
    PERI_ASSIGN(Made * m, s.engine_with(form.shares() ? form.shared : s.offered()));
    PERI_TRY(s.run(m, form));
    ++evidence->runs;
    evidence->shared_runs += form.shares();
    if (!first.empty()) {
      PERI_TRY(s.same_bits(m, first, form));
      continue;
    }
    if (s.place.checksums) {
      PERI_ASSIGN(s.first_sums, written_sums(*m->session, m->one.step, *s.place.checksums));
    }
    Answers own;
    for (size_t k = 0; k < s.region->outputs.size(); ++k) PERI_TRY(s.take_answer(m, k, expected, &own, &first));
    if (expected) {
      PERI_ASSIGN(worst, compare(*expected, own.out));
    }
    if (answers) *answers = std::move(own);
  }
  return worst;
}

namespace {
// Fewer where caches are emptied before each: below kTimeQuantile of 15 are those that tells_enough() looks at.
constexpr int64_t kMaxSamples = 64, kMaxCoolSamples = 15;
static_assert(kTimeQuantile * kMaxCoolSamples >= kSameSamples);

int64_t read_lines(std::span<const std::byte> bytes) {
  int64_t sum = 0;
  for (size_t k = 0; k + 64 <= bytes.size(); k += 64) sum += static_cast<int64_t>(bytes[k]);
  return sum;
}
}  // namespace

Status Trial::State::cool(Made* m, std::span<const std::byte> rest) const {
  const size_t parts = static_cast<size_t>(pool->threads());
  auto read_part = [&](std::span<const std::byte> bytes, int64_t part) {
    const size_t each = bytes.size() / parts / 64 * 64;
    volatile int64_t keep = read_lines(bytes.subspan(static_cast<size_t>(part) * each, each));
    (void)keep;
  };
  std::vector<std::span<const std::byte>> activations;
  for (size_t k = 0; k < weights.size(); ++k) {
    if (weights[k]) continue;
    PERI_ASSIGN(const auto bytes, m->session->memory_of(m->one.arguments[k]));
    activations.push_back(bytes);
  }
  pool->run(static_cast<int64_t>(parts), [&](int64_t part, int) { read_part(rest, part); });
  pool->run(static_cast<int64_t>(parts), [&](int64_t part, int) {
    for (const auto bytes : activations) read_part(bytes, part);
  });
  return Ok{};
}

// Of the budget: two visits to a candidate on a device lie within 1 % of each other
// (benchmarks/results/2026-11-22_trials_cuda.md) after the first rounds already.
constexpr double kAwayShare = 0.4;

Status Trial::State::time_away(Made* m, double budget_ms, int64_t least_rounds, double model_bytes, double best_ms,
                               Evidence* evidence) const {
  PERI_ASSIGN(const runtime::DeviceStep step, m->session->device_step(m->one.step));
  ChainTerms terms;
  terms.weights = weights;
  terms.cold_weights = model_bytes > static_cast<double>(place.device->target().cache_bytes(2));
  terms.budget_ms = budget_ms * kAwayShare;
  terms.best_ms = best_ms;
  terms.least_rounds = least_rounds;
  PERI_TRY(time_chains(step, terms, evidence));
  place.note_state(evidence);
  return Ok{};
}

Status Trial::time(double budget_ms, int64_t least_samples, std::span<const std::byte> rest, Evidence* evidence,
                   double model_bytes, double best_ms) {
  State& s = *state_;
  const bool cools = !rest.empty() && std::find(s.weights.begin(), s.weights.end(), true) != s.weights.end();
  bench::Schedule schedule{.warm_up_seconds = 0, .seconds = budget_ms * 1e-3, .min_samples = least_samples};
  schedule.max_samples = cools ? kMaxCoolSamples : kMaxSamples;
  // Results in memory of their own: the arguments are the same in each run.
  PERI_ASSIGN(Made * m, s.engine_with(s.offered()));
  m->session->order({});
  if (!m->apart) {
    m->session->place(Placement::kSeparate);
    PERI_TRY(m->session->run({}));
    m->apart = true;
  }
  if (s.place.away()) return s.time_away(m, budget_ms, least_samples, model_bytes, best_ms, evidence);
  Status cooled = Ok{};
  if (cools)
    schedule.before = [&] {
      if (cooled.ok()) cooled = s.cool(m, rest);
    };
  std::vector<double> seen;  // without the first, which finds all in the caches
  bool first = true;
  const auto step = [&]() -> Status {
    const int64_t start = now_ns();
    PERI_TRY(m->session->repeat(m->one.step));
    if (!std::exchange(first, false)) seen.push_back(seconds_since(start) * 1e3);
    return Ok{};
  };
  const auto told = [&] { return std::ssize(seen) >= least_samples && tells_enough(seen, best_ms); };
  PERI_ASSIGN(const auto samples, bench::time_runs(schedule, step, told));
  PERI_TRY(std::move(cooled));
  evidence->time_ms = stats::quantile(samples, kTimeQuantile);
  evidence->statistic = kTimeStatistic;
  evidence->samples = static_cast<int64_t>(samples.size());
  evidence->visits = 1;
  evidence->spread = -1;
  return Ok{};
}

}  // namespace peri::tune
