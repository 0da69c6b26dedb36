// code_texts MODEL TARGET [--compile] [--each] [--share N SEED] [--lock LOCK] [NAME=SIZE ...]: what a build in float16
// for the GPU of TARGET has NVRTC compile (one of N texts, as the seed has it), a kernel a line, or --each, without
// that GPU. --compile: on one thread, with the processor's seconds; where threads have memory of their own it is told.
// --lock: instead, whether each kernel that LOCK chose for a region is among the candidates that the build would try.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "base/hash.hpp"
#include "compile/backends.hpp"
#include "compile/compile.hpp"
#include "device/cuda/compiler.hpp"
#include "device/target.hpp"
#include "exec/cuda_code.hpp"
#include "exec/region/region_payload.hpp"
#include "lower/accepts.hpp"
#include "lower/control.hpp"
#include "lower/cover.hpp"
#include "plan/lock_file.hpp"
#include "tune/samples.hpp"

namespace peri {
namespace {

struct Call {
  std::string model, target, lock;
  bool compile = false, each = false;
  uint64_t share = 1, seed = 0;
  std::map<std::string, int64_t> dims;
};

Result<Call> call_of(int count, char** words) {
  if (count < 3)
    return usage("code_texts MODEL TARGET [--compile] [--each] [--share N SEED] [--lock LOCK] [NAME=SIZE ...]");
  Call out;
  out.model = words[1];
  out.target = words[2];
  for (int k = 3; k < count; ++k) {
    const std::string word = words[k];
    const size_t at = word.find('=');
    if (word == "--compile")
      out.compile = true;
    else if (word == "--each")
      out.compile = out.each = true;
    else if (word == "--share" && k + 2 < count) {
      out.share = std::max<uint64_t>(1, std::strtoull(words[k + 1], nullptr, 10));
      out.seed = std::strtoull(words[k + 2], nullptr, 10);
      k += 2;
    } else if (word == "--lock" && k + 1 < count)
      out.lock = words[++k];
    else if (at != std::string::npos)
      out.dims[word.substr(0, at)] = std::atoll(word.c_str() + at + 1);
    else
      return usage("'%s' is not a NAME=SIZE", word.c_str());
  }
  return out;
}

double thread_seconds() {
  timespec t = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// A graph as it is lowered, its parts, and the tuner that a build on the machine of the target would have.
struct Prepared {
  ir::Graph graph;
  std::unique_ptr<tune::Tuner> tuner;
  DimBinding tuned_for;
  std::vector<DimBinding> also;
  lower::RefusedChoices refused;
  const lower::Backend* backend = nullptr;
  lower::Parts parts;
};

Result<std::unique_ptr<Prepared>> prepare(const Call& call) {
  auto out = std::make_unique<Prepared>();
  compile::Options o;
  o.model = call.model;
  o.backend = "cuda";
  o.dtype = o.io_dtype = DType::kF16;
  o.dims = call.dims;
  if (!call.lock.empty()) {  // whose interface is the model's own
    PERI_ASSIGN(const plan::Lock lock, plan::read_lock(call.lock));
    o.io_dtype = DType::kInvalid;
    if (!lock.io_dtype.empty()) {
      PERI_ASSIGN(o.io_dtype, parse_dtype(lock.io_dtype));
    }
  }
  PERI_ASSIGN(o.tune.target, device::read_target(call.target));
  o.tune.measure = o.tune.verify = false;
  PERI_ASSIGN(const auto compilation, compile::Compilation::start(o));
  PERI_ASSIGN(out->backend, compile::backend_named("cuda"));
  tune::Options tune = compilation->options().tune;
  tune.measure = tune.verify = true;  // as far as offers go: nothing is tried here
  out->tuner = std::make_unique<tune::Tuner>(tune);
  out->graph = compilation->graph().clone();
  lower::drop_known_shapes(out->graph);
  PERI_TRY(lower::store_arguments(&out->graph));
  out->graph.erase_dead();
  out->tuned_for = compilation->tuned_for();
  const lower::Terms terms{out->graph, *out->backend, *out->tuner, out->tuned_for, out->also, out->refused};
  out->parts = lower::parts_of(out->graph, lower::cut_regions(out->graph, lower::accepts_of(terms)),
                               lower::measured_rules(terms));
  return out;
}

// Candidates of a part that the build would try, with the region at the tuned sizes.
struct Tried {
  ir::Graph region;
  std::vector<bool> constant;
  std::vector<const tune::Candidate*> candidates;
};
std::optional<Tried> tried(const Prepared& p, const lower::Part& part, tune::Turn latest = tune::Turn::kFirst) {
  auto here = exec::bind_region(lower::region_graph(part.region), p.tuned_for);
  if (!here.ok()) return std::nullopt;
  Tried out{*std::move(here), lower::constant_inputs(part.region), {}};
  for (const tune::Candidate& c : p.tuner->offers(out.region, out.constant).list)
    if (c.turn <= latest &&
        (part.kernels.empty() || std::find(part.kernels.begin(), part.kernels.end(), c.kernel) != part.kernels.end()))
      out.candidates.push_back(&c);
  return out;
}

struct Sum {
  size_t candidates = 0, texts = 0;
  double seconds = 0;
};
struct Count {
  const Call& call;
  std::unique_ptr<device::cuda::Compiler> compiler = nullptr;
  std::set<std::string> keys = {};
  std::map<std::pair<std::string, std::string>, Sum> sums = {};  // of what, by which kernel

  // What ptxas says of the text's kernels: the lines with numbers. `stack`: bytes of a thread's own memory, the most.
  static std::string told(const std::string& log, int* stack) {
    std::string out;
    for (size_t at = 0; at < log.size();) {
      const size_t end = std::min(log.find('\n', at), log.size());
      const std::string line = log.substr(at, end - at);
      at = end + 1;
      for (const char* what : {" bytes stack frame", " registers"}) {
        const size_t to = line.find(what);
        if (to == line.npos) continue;
        const std::string said = line.substr(line.rfind(' ', to - 1) + 1);
        out += "; " + said;
        if (what[1] == 'b') *stack = std::max(*stack, std::atoi(said.c_str()));
      }
    }
    return out;
  }

  Status add(const char* what, const kernels::Kernel& kernel, const std::string& config,
             const std::vector<device::cuda::Source>& sources) {
    Sum& sum = sums[{what, std::string(kernel.name)}];
    ++sum.candidates;
    for (const device::cuda::Source& s : sources) {
      if (!keys.insert(s.chip + s.name + s.text).second || hash_text(s.text, call.seed) % call.share != 0) continue;
      ++sum.texts;
      if (!compiler) continue;
      const double start = thread_seconds();
      PERI_ASSIGN(const device::cuda::Code code, compiler->compile(s));
      const double took = thread_seconds() - start;
      sum.seconds += took;
      int stack = 0;
      const std::string says = told(code.log, &stack);
      if (stack > 0) std::printf("own memory: %d bytes of %s {%s}\n", stack, s.name.c_str(), config.c_str());
      if (call.each)
        std::printf("%s %s {%s} %.1f ms%s\n", what, s.name.c_str(), config.c_str(), took * 1e3, says.c_str());
    }
    return Ok{};
  }
};

// In this order; beginnings are tried only where they may still be part of the least cover.
constexpr const char* kTurns[] = {"regions", "other parts", "beginnings"};

Status count(const Prepared& p, const Call& call) {
  Count c{call};
  if (call.compile) {
    PERI_ASSIGN(c.compiler, device::cuda::Compiler::open(""));
  }
  const device::Target& target = p.tuner->target();
  std::set<const kernels::Kernel*> sampled;
  Status added = Ok{};
  const auto turn_of = [](const lower::Part& part) -> const char* {
    if (part.greedy) return kTurns[0];
    return part.whole && part.rest && !part.joined ? kTurns[2] : kTurns[1];
  };
  for (const char* turn : kTurns)
    for (const lower::Part& part : p.parts.list) {
      if (turn_of(part) != turn) continue;
      const std::optional<Tried> t = tried(p, part);
      for (size_t k = 0; t && k < std::min<size_t>(1, t->candidates.size()); ++k)
        if (sampled.insert(t->candidates[k]->kernel).second)
          tune::each_sample_of_share(
              *t->candidates[k]->kernel, target, [&](const kernels::Problem& problem, const kernels::Offer& offer) {
                const auto& kernel = *t->candidates[k]->kernel;
                if (added.ok())
                  added = c.add("samples", kernel, offer.config, exec::sources_of(kernel, problem, offer, target));
              });
      for (size_t k = 0; t && added.ok() && k < t->candidates.size(); ++k)
        added = c.add(
            turn, *t->candidates[k]->kernel, t->candidates[k]->offer.config,
            exec::sources_of(*t->candidates[k]->kernel, {&t->region, t->constant}, t->candidates[k]->offer, target));
    }
  PERI_TRY(std::move(added));
  std::map<std::string, Sum> all;
  for (const auto& [name, sum] : c.sums) {
    std::printf("%-12s %-24s %5zu asked %5zu texts %8.2f s\n", name.first.c_str(), name.second.c_str(), sum.candidates,
                sum.texts, sum.seconds);
    for (const std::string& to : {name.first, std::string("all")}) {
      all[to].candidates += sum.candidates;
      all[to].texts += sum.texts;
      all[to].seconds += sum.seconds;
    }
  }
  for (const auto& [name, sum] : all)
    std::printf("%-37s %5zu asked %5zu texts %8.2f s\n", name.c_str(), sum.candidates, sum.texts, sum.seconds);
  return Ok{};
}

// A configuration that a library resolved is offered as its heuristic one.
bool same_kernel(const std::string& chosen, const tune::Candidate& c) {
  return chosen == c.id() || (c.kernel->resolve && chosen.starts_with(std::string(c.kernel->name) + "@"));
}

Status check_lock(const Prepared& p, const std::string& path) {
  PERI_ASSIGN(const plan::Lock lock, plan::read_lock(path));
  std::map<std::string, std::string> lost;  // region and choice: why
  for (const plan::LockedChoice& choice : lock.regions) lost[choice.key + " " + choice.candidate] = "no such part";
  std::map<size_t, int> places;  // of choices among the guesses of their kernels, each problem once
  for (const lower::Part& part : p.parts.list) {
    const std::string key = lower::region_key(part.region);
    // Of a kernel that was chosen the first came close, and so the others were tried.
    const std::optional<Tried> t = tried(p, part, tune::Turn::kIfClose);
    for (const plan::LockedChoice& choice : lock.regions) {
      const auto at = choice.key == key ? lost.find(key + " " + choice.candidate) : lost.end();
      if (at == lost.end()) continue;
      size_t place = 0;
      const bool here = t && std::any_of(t->candidates.begin(), t->candidates.end(), [&](const tune::Candidate* c) {
                          place += choice.candidate.starts_with(std::string(c->kernel->name) + "@");
                          return same_kernel(choice.candidate, *c) && lower::layouts_text(c->offer) == choice.layouts;
                        });
      if (here) {
        lost.erase(at);
        ++places[place];
      } else {
        at->second = "not tried";
      }
    }
  }
  for (const auto& [choice, why] : lost) std::printf("%s: %s\n", choice.c_str(), why.c_str());
  for (const auto& [place, count] : places) std::printf("guess %zu of its kernel: %d problems\n", place, count);
  std::printf("%zu of %zu choices of the lock lost\n", lost.size(), lock.regions.size());
  return lost.empty() ? Status(Ok{}) : refused("what was chosen on the GPU would not be tried any more");
}

Status run(int count_of_words, char** words) {
  PERI_ASSIGN(const Call call, call_of(count_of_words, words));
  PERI_ASSIGN(const std::unique_ptr<Prepared> p, prepare(call));
  return call.lock.empty() ? count(*p, call) : check_lock(*p, call.lock);
}
}  // namespace
}  // namespace peri

int main(int count, char** words) {
  const peri::Status done = peri::run(count, words);
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.error().text().c_str());
  return done.ok() ? 0 : 1;
}
