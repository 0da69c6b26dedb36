// Candidates of a problem: offers collected, verified, timed and ordered; equal problems are done once.
#include "tune/tuner.hpp"

#include <algorithm>
#include <cmath>

#include "base/clock.hpp"
#include "base/hash.hpp"
#include "tune/trial.hpp"

namespace peri::tune {

std::string Candidate::id() const {
  return std::string(kernel->name) + "@" + std::to_string(kernel->version) + " {" + offer.config + "}";
}

struct Tuner::State {
  Options options;
  kernels::Machine machine;
  std::unique_ptr<ThreadPool> pool;
  std::map<std::string, Candidates> by_problem;
  std::map<std::string, bool> accepted;
  std::map<std::string, double> conversions;
  Stats stats;

  Candidates collect(const ir::Graph& region, const std::vector<bool>& constant);
  void judge(const ir::Graph& region, const std::vector<bool>& constant, Candidates* all);
};

Tuner::Tuner(Options options) : state_(std::make_unique<State>()) {
  state_->machine = kernels::detect_machine(options.threads);
  state_->pool = std::make_unique<ThreadPool>(options.threads);
  state_->options = std::move(options);
}
Tuner::~Tuner() = default;
const kernels::Machine& Tuner::machine() const { return state_->machine; }
const Options& Tuner::options() const { return state_->options; }
Tuner::Stats Tuner::stats() const { return state_->stats; }

namespace {
std::string key_of(const ir::Graph& region, const std::vector<bool>& constant) {
  std::string key = ir::print(region, {1024, false});
  for (bool c : constant) key += c ? 'c' : 'v';
  return key;
}
}  // namespace

Candidates Tuner::State::collect(const ir::Graph& region, const std::vector<bool>& constant) {
  Candidates all;
  const kernels::Problem problem{&region, constant};
  for (const kernels::Entry* e : kernels::entries()) {
    const kernels::Kernel& k = e->kernel;
    // Changes of layout serve every provider.
    if (!options.provider.empty() && k.provider != options.provider && problem.anchor().op != "relayout") continue;
    auto offers = k.offer(problem, machine);
    if (!offers.ok()) {
      all.refusals.push_back({std::string(k.name), offers.error().text()});
      continue;
    }
    for (kernels::Offer& o : *offers) {
      if (!machine.has(o.requires_isa)) {
        all.refusals.push_back({std::string(k.name), "this machine has no " + o.requires_isa});
        continue;
      }
      o.inputs.resize(region.inputs.size());
      o.outputs.resize(region.outputs.size());
      all.list.push_back({&k, std::move(o), -1, -1, ""});
    }
  }
  return all;
}

void Tuner::State::judge(const ir::Graph& region, const std::vector<bool>& constant, Candidates* all) {
  auto arguments = make_arguments(region, options.seed);
  if (!arguments.ok()) return;
  std::optional<Expected> expected;
  if (options.verify) {
    auto made = make_expected(region, *arguments, options.threads, options.seed);
    if (made.ok()) expected = std::move(made).value();
  }
  for (Candidate& c : all->list) {
    auto trial = Trial::create(region, constant, c, *arguments, machine, pool.get());
    if (!trial.ok()) {
      c.rejected = trial.error().text();
      continue;
    }
    if (expected) {
      auto error = (*trial)->verify(*expected);
      if (!error.ok()) {
        c.rejected = error.error().text();
        ++stats.rejected;
        continue;
      }
      c.max_error = *error;
    }
    if (options.measure) {
      c.median_ms = (*trial)->time_ms(options.budget_ms);
      ++stats.measured;
    }
  }
  std::stable_sort(all->list.begin(), all->list.end(), [](const Candidate& a, const Candidate& b) {
    if (a.rejected.empty() != b.rejected.empty()) return a.rejected.empty();
    return a.median_ms < b.median_ms;
  });
}

const Candidates& Tuner::candidates(const ir::Graph& region, const std::vector<bool>& constant) {
  State& s = *state_;
  const std::string key = key_of(region, constant);
  auto it = s.by_problem.find(key);
  if (it != s.by_problem.end()) return it->second;
  const int64_t start = now_ns();
  Candidates all = s.collect(region, constant);
  if ((s.options.measure || s.options.verify) && !all.list.empty()) s.judge(region, constant, &all);
  ++s.stats.problems;
  s.stats.candidates += static_cast<int64_t>(all.list.size());
  s.stats.seconds += seconds_since(start);
  return s.by_problem.emplace(key, std::move(all)).first->second;
}

bool Tuner::accepted(const ir::Graph& region, const std::vector<bool>& constant) {
  const std::string key = key_of(region, constant);
  auto it = state_->accepted.find(key);
  if (it != state_->accepted.end()) return it->second;
  return state_->accepted[key] = !state_->collect(region, constant).list.empty();
}

bool Tuner::offered(const Candidate& candidate, const ir::Graph& region, const std::vector<bool>& constant) {
  auto offers = candidate.kernel->offer({&region, constant}, state_->machine);
  if (!offers.ok()) return false;
  for (kernels::Offer& o : *offers) {
    o.inputs.resize(region.inputs.size());
    o.outputs.resize(region.outputs.size());
    if (o.config == candidate.offer.config && o.inputs == candidate.offer.inputs && o.outputs == candidate.offer.outputs) return true;
  }
  return false;
}

double Tuner::convert_ms(DType dtype, const std::vector<int64_t>& dims, const ir::Layout& from, const ir::Layout& to) {
  if (from == to) return 0;
  ir::Graph g;
  ir::Value* x = g.add_input("x", ir::Type(dtype, Shape(dims.begin(), dims.end())));
  x->type.layout = from;
  ir::Value* y = g.add("relayout", {x}, {}, "y")->out();
  y->type = x->type;
  y->type.layout = to;
  g.mark_output(y, "y");
  const std::string key = ir::print(g);
  auto it = state_->conversions.find(key);
  if (it != state_->conversions.end()) return it->second;
  double n = 1;
  for (int64_t d : dims) n *= static_cast<double>(d);
  double ms = n * dtype_bits(dtype) / 8 * 2 / 4e6;  // 4 GB/s: what a plain permuting loop reaches, until measured
  const Candidates& all = candidates(g, {false});
  if (!all.list.empty() && all.list[0].rejected.empty() && all.list[0].median_ms >= 0) ms = all.list[0].median_ms;
  return state_->conversions[key] = ms;
}

}  // namespace peri::tune
