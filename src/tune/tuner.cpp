// Candidates of a problem: offers collected, verified, timed and ordered; equal problems are done once.
#include "tune/tuner.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/clock.hpp"
#include "base/hash.hpp"
#include "exec/core/region_payload.hpp"
#include "tune/cache.hpp"
#include "tune/trial.hpp"

namespace peri::tune {

std::string Candidate::id() const {
  return std::string(kernel->name) + "@" + std::to_string(kernel->version) + " {" + offer.config + "}";
}

struct Tuner::State {
  Options options;
  kernels::Machine machine;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Cache> cache;
  std::map<std::string, Candidates> by_problem;
  std::map<std::string, bool> accepted;
  std::map<std::string, double> conversions;
  Stats stats;
  Tensor rest;

  // What is read between timed runs; empty if there is no memory for it.
  std::span<const std::byte> between_runs();
  Candidates collect(const ir::Graph& region, const std::vector<bool>& constant);
  bool stopped() const { return options.stop && options.stop(); }
  // Takes what the cache knows of a candidate; false if it has to be tried.
  bool recall(const std::string& key, Candidate* c);
  void judge(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key, Candidates* all);
  // After an interruption: where something was tried, only that may be chosen.
  void leave_untried(Candidates* all);
  void judge_new(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key, std::span<Candidate* const> fresh);
};

Tuner::Tuner(Options options) : state_(std::make_unique<State>()) {
  state_->machine = kernels::detect_machine(options.threads);
  state_->pool = std::make_unique<ThreadPool>(options.threads);
  state_->options = std::move(options);
  if (!state_->options.cache_path.empty() && state_->options.measure) state_->cache = Cache::open(state_->options.cache_path, machine_key(state_->machine));
}
Tuner::~Tuner() = default;
const kernels::Machine& Tuner::machine() const { return state_->machine; }
const Options& Tuner::options() const { return state_->options; }
void Tuner::set_model_bytes(double bytes) {
  PERI_CHECK(state_->stats.measured == 0, "times were taken for a model of another size");
  state_->options.model_bytes = bytes;
}
Tuner::Stats Tuner::stats() const {
  Stats s = state_->stats;
  if (state_->cache) s.cache_trouble = state_->cache->trouble();
  return s;
}

namespace {
constexpr double kLargestTrialBytes = 1 << 30;

// How much passes through the caches between two runs of a step: the model's weights, of which more than the caches hold
// makes no difference. A power of two or 5/4 of the last cache: it stands in the cache's key.
size_t traffic_bytes(double model_bytes) {
  const long known = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const size_t cache = known > 0 ? static_cast<size_t>(known) : size_t{32} << 20, most = std::min(cache + cache / 4, size_t{128} << 20);
  size_t bytes = size_t{64} << 10;
  while (static_cast<double>(bytes) < model_bytes && bytes < most) bytes *= 2;
  return std::min(bytes, most);
}

double bytes_of(const ir::Type& type) {
  double n = dtype_bits(type.dtype) / 8.0;
  for (const Dim& d : *type.shape) n *= d.is_const() ? static_cast<double>(d.value()) : 1.0;
  return n;
}

std::string key_of(const ir::Graph& region, const std::vector<bool>& constant) {
  std::string key = ir::print(region, {1024, false});
  for (bool c : constant) key += c ? 'c' : 'v';
  return key;
}

// Two offers may differ in their layouts only.
std::string cached_name(const Candidate& c) {
  std::string name = c.id();
  for (const auto* layouts : {&c.offer.inputs, &c.offer.outputs})
    for (const ir::Layout& l : *layouts) name += " " + (l.row_major() ? std::string("-") : exec::layout_code(l));
  return name;
}
}  // namespace

std::span<const std::byte> Tuner::State::between_runs() {
  const size_t bytes = traffic_bytes(options.model_bytes);
  if (rest.bytes().size() != bytes) {
    auto made = Tensor::uninitialized(DType::kU8, {static_cast<int64_t>(bytes)});
    if (!made.ok()) return {};
    rest = std::move(made).value();
    std::memset(rest.mutable_data(), 1, bytes);  // pages never written would all be the same page of zeros
  }
  return rest.bytes();
}

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

bool Tuner::State::recall(const std::string& key, Candidate* c) {
  if (!cache) return false;
  const std::optional<CacheRow> row = cache->find(key, cached_name(*c));
  if (!row || (row->rejected.empty() && (row->median_ms < 0 || (options.verify && row->max_error < 0)))) return false;
  c->median_ms = row->median_ms;
  c->max_error = row->max_error;
  c->rejected = row->rejected;
  ++stats.from_cache;
  return true;
}

void Tuner::State::judge_new(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key, std::span<Candidate* const> fresh) {
  auto unjudged = [&](const Error& why) {
    for (Candidate* c : fresh) c->rejected = "cannot be judged: " + why.text();
  };
  // What no trial can hold is left to the reference, which fails with a typed error if the memory is not there.
  double bytes = 0;
  for (size_t k = 0; k < region.inputs.size(); ++k)
    if (!constant[k]) bytes += bytes_of(region.inputs[k]->type);
  for (const ir::Value* v : region.outputs) bytes += bytes_of(v->type);
  if (bytes > kLargestTrialBytes) {
    for (Candidate* c : fresh) c->rejected = "its tensors are too large to try: " + std::to_string(static_cast<int64_t>(bytes / (1 << 20))) + " MiB";
    return;
  }
  if (stopped()) return;
  auto arguments = make_arguments(region, options.seed);
  if (!arguments.ok()) return unjudged(arguments.error());
  std::optional<Expected> expected;
  if (options.verify) {
    auto made = make_expected(region, *arguments, options.threads, options.seed);
    if (!made.ok()) return unjudged(made.error());
    expected = std::move(made).value();
  }
  for (Candidate* c : fresh) {
    if (stopped()) return;
    auto trial = Trial::create(region, constant, *c, *arguments, machine, pool.get());
    if (!trial.ok()) {
      c->rejected = trial.error().text();  // may be this moment's memory: not kept
      continue;
    }
    if (expected) {
      auto error = (*trial)->verify(*expected);
      if (error.ok()) {
        c->max_error = *error;
      } else {
        c->rejected = error.error().text();
        ++stats.rejected;
      }
    }
    if (c->rejected.empty() && options.measure) {
      c->median_ms = (*trial)->time_ms(options.budget_ms, between_runs());
      ++stats.measured;
    }
    if (cache) cache->store(key, cached_name(*c), {c->median_ms, c->max_error, c->rejected});
  }
}

void Tuner::State::leave_untried(Candidates* all) {
  const auto tried = [](const Candidate& c) { return c.median_ms >= 0 || c.max_error >= 0; };
  if (std::none_of(all->list.begin(), all->list.end(), [&](const Candidate& c) { return c.rejected.empty() && tried(c); })) {
    ++stats.untried;
    return;
  }
  for (Candidate& c : all->list)
    if (c.rejected.empty() && !tried(c)) c.rejected = "not tried: the build was interrupted";
}

void Tuner::State::judge(const ir::Graph& region, const std::vector<bool>& constant, const std::string& key, Candidates* all) {
  std::vector<Candidate*> fresh;
  for (Candidate& c : all->list)
    if (!recall(key, &c)) fresh.push_back(&c);
  if (!fresh.empty()) judge_new(region, constant, key, fresh);
  if (stopped()) leave_untried(all);
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
  // Times hold for what was read between the runs.
  const bool weights = std::find(constant.begin(), constant.end(), true) != constant.end();
  const std::string cached = weights ? key + format(" after %zu", traffic_bytes(s.options.model_bytes)) : key;
  if ((s.options.measure || s.options.verify) && !all.list.empty()) s.judge(region, constant, cached, &all);
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
