// The run of a kernel's samples.
#include "tune/samples.hpp"

#include <map>
#include <mutex>

#include "exec/cuda_code.hpp"
#include "problem/problem.hpp"
#include "tune/sample_regions.hpp"
#include "tune/trial.hpp"

namespace peri::tune {

namespace {
constexpr uint64_t kSeed = 7;

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

// Has the code of all offers for the problem compiled, if they have any.
void foresee(const kernels::Kernel& kernel, const TrialPlace& place, const SampleProblem& p) {
  if (!place.away()) return;
  const kernels::Problem problem{&p.region, p.constant};
  const auto offers = kernel.offer(problem, place.target);
  if (!offers.ok()) return;
  for (const kernels::Offer& o : *offers) exec::foresee_code(kernel, problem, o.config, place.target);
}

// The error of the first offer of the kernel for this problem that is wrong; counts the others in *right.
Status check_problem(const kernels::Kernel& kernel, const TrialPlace& place, SampleProblem* p, ThreadPool* pool,
                     int64_t* right) {
  auto offers = kernel.offer({&p->region, p->constant}, place.target);
  if (!offers.ok() || offers->empty() || !prepared(p)) return Ok{};
  for (kernels::Offer& o : *offers) {
    if (!place.target.has(o.requires_isa)) continue;
    o.inputs.resize(p->region.inputs.size());
    o.outputs.resize(p->region.outputs.size());
    const Candidate c{&kernel, std::move(o)};
    auto trial = Trial::create(p->region, p->constant, c, &*p->given, place, pool);
    const auto late = [](ErrorKind kind) { return kind == ErrorKind::kRefused || kind == ErrorKind::kUnsupported; };
    if (!trial.ok() && late(trial.error().kind)) continue;
    if (!trial.ok()) return Error(trial.error().kind, "{" + c.offer.config + "} " + trial.error().text());
    Evidence evidence;
    auto error = (*trial)->verify(&*p->expected, &evidence);
    if (!error.ok()) return Error(error.error().kind, "{" + c.offer.config + "} " + error.error().text());
    ++*right;
  }
  return Ok{};
}
}  // namespace

SampleVerdict check_samples(const kernels::Kernel& kernel, const TrialPlace& place, ThreadPool* pool) {
  // A process that builds many engines asks once.
  static std::mutex guard;
  static std::map<const kernels::Kernel*, SampleVerdict> known;
  const std::lock_guard<std::mutex> lock(guard);
  if (const auto it = known.find(&kernel); it != known.end()) return it->second;
  SampleVerdict v;
  std::vector<SampleProblem> own = own_problems(kernel);
  for (std::vector<SampleProblem>* list : {&own, &common_problems()})
    for (const SampleProblem& p : *list) foresee(kernel, place, p);
  for (std::vector<SampleProblem>* list : {&own, &common_problems()})
    for (SampleProblem& p : *list) {
      if (!v.failed.empty()) break;
      const Status right = check_problem(kernel, place, &p, pool, &v.samples);
      if (right.ok()) continue;
      v.failed = "wrong on a sample: " + right.error().text() + " in " + problem::text(p.region, p.constant);
      v.lasting = right.error().kind != ErrorKind::kMemory;
    }
  if (v.failed.empty() && v.samples == 0) v.failed = "no sample of it ran: nothing is known of it";
  if (v.lasting) known.emplace(&kernel, v);
  return v;
}

}  // namespace peri::tune
