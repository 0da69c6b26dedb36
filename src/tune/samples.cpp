// Runs the samples of a kernel.
#include "tune/samples.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "exec/cuda_code.hpp"
#include "problem/problem.hpp"
#include "tune/rejection.hpp"
#include "tune/sample_regions.hpp"
#include "tune/trial.hpp"

namespace peri::tune {

namespace {
constexpr uint64_t kSeed = 7;  // any: the same samples in every run

// Arguments and answer, made once for all kernels.
bool prepared(SampleProblem* p) {
  if (p->refused || p->expected) return !p->refused;
  auto arguments = make_arguments(p->region, kSeed);
  auto expected = arguments.ok() ? make_expected(p->region, *arguments, 1, kSeed) : Result<Expected>(arguments.error());
  p->refused = !expected.ok();
  if (p->refused) return false;
  auto given = Given::make(std::move(*arguments), p->constant);
  p->refused = !given.ok();
  if (p->refused) return false;
  p->given = std::move(*given);
  p->expected = std::move(*expected);
  return true;
}

// On a device, where the code of each configuration of each problem is compiled by itself, a part of the samples by the
// best guess for each: those that the kernel states, of the chains behind them some, of the others every eighth or as
// many as are some in all; and every other configuration once. What could not be made does not count: the next one runs
// in its place. Fifty chains of a sample became sixteen (kSome): benchmarks/results/2026-11-23_nvrtc_texts.md; every
// eighth (kLeast) is of the sample's cost only: benchmarks/results/2026-11-22_trials_cuda.md. The host runs all of them
// in CI (tests/tune/cuda_text_test.cpp), a GPU in tests/tune/cuda_samples_gpu_test.cpp.
class Share {
 public:
  // Those of the kernel first; a host takes all.
  Share(const kernels::Kernel& kernel, const device::Target& target, bool away,
        std::span<SampleProblem* const> problems)
      : all_(!away), problems_(problems) {
    size_t taken[2] = {};
    for (const SampleProblem* p : problems.first(away ? problems.size() : 0)) {
      const auto offers = kernel.offer({&p->region, p->constant}, target);
      if (offers.ok() && !offers->empty() && p->from != SampleProblem::From::kStated) ++taken[of_ops(*p)];
    }
    for (const size_t k : {0, 1}) one_of_[k] = std::max(kLeast[k], (taken[k] + kSome - 1) / kSome);
  }
  bool takes(size_t problem, size_t offer, const std::string& config) const {
    if (all_) return true;
    if (offer > 0) return !seen_.contains(config);
    const SampleProblem& p = *problems_[problem];
    return p.from == SampleProblem::From::kStated || to_leave_[of_ops(p)] == 0;
  }
  void ran(size_t problem, size_t offer, const std::string& config) {
    const SampleProblem& p = *problems_[problem];
    if (offer > 0) seen_.insert(config);
    if (offer == 0 && p.from != SampleProblem::From::kStated) to_leave_[of_ops(p)] = one_of_[of_ops(p)] - 1;
  }
  void left(size_t problem, size_t offer) {
    if (offer == 0) --to_leave_[of_ops(*problems_[problem])];
  }

 private:
  static constexpr size_t kSome = 16, kLeast[] = {1, 8};  // of the kernel's chains, and of samples of ops
  static size_t of_ops(const SampleProblem& p) { return p.from == SampleProblem::From::kOps; }
  bool all_;
  std::span<SampleProblem* const> problems_;
  size_t one_of_[2] = {}, to_leave_[2] = {};
  std::set<std::string, std::less<>> seen_;
};

// All offers that will be tried, if each can be made.
void each_tried(const kernels::Kernel& kernel, const device::Target& target, Share share,
                std::span<SampleProblem* const> problems, const EachOffer& tell) {
  for (size_t n = 0; n < problems.size(); ++n) {
    const kernels::Problem problem{&problems[n]->region, problems[n]->constant};
    const auto offers = kernel.offer(problem, target);
    for (size_t k = 0; offers.ok() && k < offers->size(); ++k) {
      const kernels::Offer& offer = (*offers)[k];
      if (!share.takes(n, k, offer.config)) {
        share.left(n, k);
        continue;
      }
      tell(problem, offer);
      share.ran(n, k, offer.config);
    }
  }
}

// The error of the first offer of the kernel for this problem that is wrong; counts the others in *verdict. `unmade`:
// why the last that could not be made was not.
Status check_problem(const kernels::Kernel& kernel, const TrialPlace& place, SampleProblem* p, size_t number,
                     Share* share, ThreadPool* pool, SampleVerdict* verdict, std::string* unmade) {
  auto offers = kernel.offer({&p->region, p->constant}, place.target);
  if (!offers.ok() || offers->empty()) return Ok{};
  int64_t begun = now_ns();
  const bool known = prepared(p);
  verdict->spent.reference += lap(&begun);
  if (!known) return Ok{};
  for (size_t k = 0; k < offers->size(); ++k) {
    kernels::Offer& o = (*offers)[k];
    if (!share->takes(number, k, o.config)) {
      share->left(number, k);
      ++verdict->left_out;
      continue;
    }
    o.inputs.resize(p->region.inputs.size());
    o.outputs.resize(p->region.outputs.size());
    int64_t since = now_ns();  // Clock: a lap of what the build reports
    const double waited = place.away() ? exec::code_seconds() : 0;
    const Candidate c{&kernel, std::move(o)};
    const bool here = place.target.has(c.offer.requires_isa);
    auto trial = here ? Trial::create(p->region, p->constant, c, &*p->given, place, pool)
                      : Result<std::unique_ptr<Trial>>(refused("the target has no such instructions"));
    const double code = place.away() ? exec::code_seconds() - waited : 0;
    verdict->spent.code += code;
    verdict->spent.ready += std::max(lap(&since) - code, 0.0);
    const auto late = [](ErrorKind kind) { return kind == ErrorKind::kRefused || kind == ErrorKind::kUnsupported; };
    if (!trial.ok() && late(trial.error().kind)) {
      ++verdict->unmade;
      *unmade = trial.error().text();
      continue;
    }
    if (!trial.ok()) return Error(trial.error().kind, "{" + c.offer.config + "} " + trial.error().text());
    Evidence evidence;
    auto error = (*trial)->verify(&*p->expected, &evidence);
    trial->reset();
    verdict->spent.checks += lap(&since);
    if (!error.ok()) return Error(error.error().kind, "{" + c.offer.config + "} " + error.error().text());
    share->ran(number, k, c.offer.config);
    ++verdict->samples;
  }
  return Ok{};
}
}  // namespace

namespace {
// Its own samples, then those of all kernels.
std::vector<SampleProblem*> problems_of(std::vector<SampleProblem>* own) {
  std::vector<SampleProblem*> out;
  for (std::vector<SampleProblem>* list : {own, &common_problems()})
    for (SampleProblem& p : *list) out.push_back(&p);
  return out;
}
}  // namespace

void each_sample_of_share(const kernels::Kernel& kernel, const device::Target& target, const EachOffer& tell) {
  std::vector<SampleProblem> own = own_problems(kernel);
  const std::vector<SampleProblem*> problems = problems_of(&own);
  each_tried(kernel, target, Share(kernel, target, true, problems), problems, tell);
}

void foresee_samples(const kernels::Kernel& kernel, const TrialPlace& place, bool urgent) {
  if (!place.away()) return;
  each_sample_of_share(kernel, place.target, [&](const kernels::Problem& problem, const kernels::Offer& offer) {
    exec::foresee_code(kernel, problem, offer, place.target, urgent);
  });
}

SampleVerdict check_samples(const kernels::Kernel& kernel, const TrialPlace& place, ThreadPool* pool,
                            const std::function<void()>& before) {
  // A process that builds many engines asks once.
  static std::mutex guard;
  static std::map<const kernels::Kernel*, SampleVerdict> known;
  const std::lock_guard<std::mutex> lock(guard);
  if (const auto it = known.find(&kernel); it != known.end()) return it->second;
  SampleVerdict v;
  std::vector<SampleProblem> own = own_problems(kernel);
  const std::vector<SampleProblem*> problems = problems_of(&own);
  Share share(kernel, place.target, place.away(), problems);
  std::string unmade;
  foresee_samples(kernel, place, true);
  for (size_t n = 0; n < problems.size() && v.failed.empty(); ++n) {
    SampleProblem& p = *problems[n];
    if (before) before();
    const Status right = check_problem(kernel, place, &p, n, &share, pool, &v, &unmade);
    if (right.ok()) continue;
    const bool short_of_memory = right.error().kind == ErrorKind::kMemory;
    v.failed = (short_of_memory ? "" : "wrong on a sample: ") + rejection(right.error()) + " in " +
               problem::text(p.region, p.constant);
    v.lasting = !short_of_memory;
  }
  if (v.failed.empty() && v.samples == 0)
    v.failed = "no sample of it ran: nothing is known of it" + (unmade.empty() ? "" : "; " + unmade);
  if (v.lasting) known.emplace(&kernel, v);
  return v;
}

}  // namespace peri::tune
