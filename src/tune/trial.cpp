// Forms in which a candidate is run, what each of them must leave as it was, and timing.
#include "tune/trial.hpp"

#include <algorithm>
#include <cstring>

#include "base/hash.hpp"
#include "bench/measure.hpp"
#include "tune/guarded.hpp"

namespace peri::tune {

namespace {
// Up to here tasks of the further forms run on one thread, so that their order is what it says; beyond, the order is
// that in which threads take them, and tasks are run backwards in one form only.
constexpr double kSerialFlops = 2e8;

// Which memory results have and in which order tasks run.
struct Form {
  std::vector<int> shared;  // for each output: the input whose memory it takes, or -1
  bool backwards = false, serial = false;
  bool shares() const {
    return std::any_of(shared.begin(), shared.end(), [](int k) { return k >= 0; });
  }
};

Result<Guarded> guarded_copy(const Tensor& t) {
  PERI_ASSIGN(Guarded g, Guarded::make(t.bytes().size()));
  if (g.bytes() > 0) std::memcpy(g.data(), t.data(), g.bytes());
  return g;
}

Error wrong(const std::string& what) { return {ErrorKind::kAccuracy, what}; }
}  // namespace

struct Trial::State {
  std::vector<std::vector<int64_t>> out_dims;
  ir::Graph region;
  std::vector<int> in_place;
  double flops = 0;
  std::vector<Guarded> in, out, scratch;  // scratch of each worker
  Guarded workspace;
  std::vector<uint64_t> in_hash;
  std::vector<bool> constant;
  ThreadPool* pool = nullptr;
  kernels::Packed packed;
  std::unique_ptr<kernels::Instance> instance;
  std::vector<const void*> in_p;  // of the form bound last
  std::vector<void*> out_p;

  Form private_form() const { return {std::vector<int>(out.size(), -1)}; }
  std::vector<Form> forms(bool brief) const;
  Status check_sharing() const;
  void bind(const Form& form);
  Status run(const Form& form);
  Status run_poisoned(const Form& form);
  Status check_memory(const Form& form) const;
  Result<Tensor> answer(size_t k) const;
  Status same_bits(const std::vector<Tensor>& first, const Form& form) const;
};
Trial::Trial() : state_(std::make_unique<State>()) {}
Trial::~Trial() = default;

// What an engine relies on when it lets a result share an argument's memory.
Status Trial::State::check_sharing() const {
  if (!in_place.empty() && in_place.size() != out.size())
    return wrong(format("it offers sharing of %zu results of %zu", in_place.size(), out.size()));
  for (size_t k = 0; k < in_place.size(); ++k) {
    if (in_place[k] < 0) continue;
    const size_t i = static_cast<size_t>(in_place[k]);
    if (i >= in.size() || constant[i] || in[i].bytes() != out[k].bytes() ||
        region.inputs[i]->type.dtype != region.outputs[k]->type.dtype)
      return wrong(format("it offers output %zu in the memory of input %zu, which is none of its kind", k, i));
  }
  return Ok{};
}

std::vector<Form> Trial::State::forms(bool brief) const {
  const bool cheap = flops <= kSerialFlops;
  std::vector<Form> all = {private_form()};
  Form back = private_form();
  back.backwards = true;
  back.serial = cheap;
  std::vector<std::vector<int>> sharings;
  for (size_t k = 0; k < in_place.size(); ++k) {
    if (in_place[k] < 0) continue;
    sharings.emplace_back(out.size(), -1);
    sharings.back()[k] = in_place[k];
  }
  if (sharings.size() > 1) sharings.push_back(in_place);
  if (cheap || (sharings.empty() && !brief)) all.push_back(back);
  for (const std::vector<int>& shared : sharings) {
    back.shared = shared;
    all.push_back(back);
    if (cheap) all.push_back({shared, false, true});
  }
  return all;
}

Result<std::unique_ptr<Trial>> Trial::create(const ir::Graph& region, const std::vector<bool>& constant,
                                             const Candidate& c, std::span<const Tensor> arguments,
                                             const device::Target& target, ThreadPool* pool, bool choosing) {
  std::unique_ptr<Trial> trial(new Trial());
  State& s = *trial->state_;
  s.pool = pool;
  s.constant = constant;
  s.region = region.clone();
  s.in_place = c.offer.in_place;
  for (const ir::Node* n : region.nodes) s.flops += ops::cost_of(*n).flops;
  std::vector<Tensor> constants(arguments.size());
  for (size_t k = 0; k < arguments.size(); ++k) {
    s.region.inputs[k]->type.layout = c.offer.inputs[k];
    PERI_ASSIGN(const Tensor t, to_layout(arguments[k], c.offer.inputs[k]));
    PERI_ASSIGN(Guarded g, guarded_copy(t));
    s.in.push_back(std::move(g));
    const std::span<const std::byte> bytes = {s.in.back().data(), s.in.back().bytes()};
    if (constant[k]) {
      PERI_ASSIGN(constants[k], Tensor::view(t.dtype(), t.dims(), bytes, nullptr));
    }
    s.in_hash.push_back(hash_bytes(bytes.data(), bytes.size()));
  }
  for (size_t k = 0; k < region.outputs.size(); ++k) {
    s.region.outputs[k]->type.layout = c.offer.outputs[k];
    s.out_dims.push_back(kernels::dims_of(*region.outputs[k]));
    PERI_ASSIGN(const int64_t count, checked_numel(physical_dims(s.out_dims[k], c.offer.outputs[k])));
    PERI_ASSIGN(const int64_t bytes, dtype_bytes(region.outputs[k]->type.dtype, count));
    PERI_ASSIGN(Guarded g, Guarded::make(static_cast<size_t>(bytes)));
    s.out.push_back(std::move(g));
  }
  const kernels::Problem problem{&s.region, constant};
  PERI_ASSIGN(s.instance,
              c.kernel->instantiate(problem, c.offer.config, {constants, &s.packed, &target, nullptr, choosing}));
  PERI_ASSIGN(s.workspace, Guarded::make(s.instance->workspace_bytes()));
  for (int k = 0; k < pool->threads(); ++k) {
    PERI_ASSIGN(Guarded g, Guarded::make(s.instance->scratch_bytes()));
    s.scratch.push_back(std::move(g));
  }
  return trial;
}

// Arguments whose memory a result takes are copied there.
void Trial::State::bind(const Form& form) {
  in_p.clear(), out_p.clear();
  for (size_t k = 0; k < in.size(); ++k) in_p.push_back(constant[k] ? nullptr : in[k].data());
  for (size_t k = 0; k < out.size(); ++k) {
    out_p.push_back(out[k].data());
    if (form.shared[k] < 0) continue;
    const Guarded& argument = in[static_cast<size_t>(form.shared[k])];
    if (argument.bytes() > 0) std::memcpy(out[k].data(), argument.data(), argument.bytes());
    in_p[static_cast<size_t>(form.shared[k])] = out[k].data();
  }
}

Status Trial::State::run(const Form& form) {
  for (int phase = 0; phase < instance->phases(); ++phase) {
    const int64_t tasks = instance->tasks(phase);
    const auto one = [&](int64_t at, int worker) {
      const int64_t task = form.backwards ? tasks - 1 - at : at;
      instance->run_task(phase, task, {in_p, out_p, workspace.data(), scratch[static_cast<size_t>(worker)].data()});
    };
    if (form.serial)
      for (int64_t k = 0; k < tasks; ++k) one(k, 0);
    else
      pool->run(tasks, one);
  }
  return instance->finish({in_p, out_p, workspace.data(), scratch[0].data()});
}

Status Trial::State::check_memory(const Form& form) const {
  const auto check = [](const Guarded& g, const std::string& what) -> Status {
    if (const std::string_view where = g.written(); !where.empty())
      return wrong("it wrote " + std::string(where) + " " + what);
    return Ok{};
  };
  for (size_t k = 0; k < out.size(); ++k)
    PERI_TRY(check(out[k], format("output %zu", k) +
                               (form.shared[k] < 0 ? "" : format(" in the memory of input %d", form.shared[k]))));
  for (size_t k = 0; k < in.size(); ++k) {
    PERI_TRY(check(in[k], format("input %zu", k)));
    if (hash_bytes(in[k].data(), in[k].bytes()) != in_hash[k]) return wrong(format("it changed its input %zu", k));
  }
  PERI_TRY(check(workspace, "its workspace"));
  for (const Guarded& g : scratch) PERI_TRY(check(g, "its scratch"));
  return Ok{};
}

Status Trial::State::run_poisoned(const Form& form) {
  for (Guarded& g : out) g.poison();
  workspace.poison();
  for (Guarded& g : scratch) g.poison();
  bind(form);
  const Status done = run(form);
  if (!done.ok()) return wrong("its run reports: " + done.error().text());
  return check_memory(form);
}

// As it lies in memory, in the layout it was given in.
Result<Tensor> Trial::State::answer(size_t k) const {
  const ir::Type& type = region.outputs[k]->type;
  PERI_ASSIGN(Tensor t, Tensor::uninitialized(type.dtype, physical_dims(out_dims[k], type.layout)));
  if (out[k].bytes() > 0) std::memcpy(t.mutable_data(), out[k].data(), out[k].bytes());
  return t;
}

Status Trial::State::same_bits(const std::vector<Tensor>& first, const Form& form) const {
  for (size_t k = 0; k < first.size(); ++k) {
    const ir::Type& type = region.outputs[k]->type;
    if (std::memcmp(first[k].data(), out[k].data(), out[k].bytes()) == 0) continue;
    PERI_ASSIGN(const Tensor now, answer(k));
    PERI_ASSIGN(const Tensor a, from_layout(first[k], type.layout, out_dims[k]));
    PERI_ASSIGN(const Tensor b, from_layout(now, type.layout, out_dims[k]));
    const auto at = std::mismatch(a.bytes().begin(), a.bytes().end(), b.bytes().begin()).first;
    if (at == a.bytes().end()) continue;  // padding of a layout may hold anything
    const int64_t element = (at - a.bytes().begin()) * 8 / dtype_bits(type.dtype);
    return wrong(format("output %zu at %lld depends on %s", k, static_cast<long long>(element),
                        form.shares() ? "whether results share memory of arguments" : "the order of tasks"))
        .expecting("the same bits");
  }
  return Ok{};
}

Result<double> Trial::verify(const Expected* expected, Evidence* evidence, std::vector<Tensor>* outputs, bool brief) {
  State& s = *state_;
  PERI_TRY(s.check_sharing());
  std::vector<Tensor> first;
  double worst = 0;
  for (const Form& form : s.forms(brief)) {
    PERI_TRY(s.run_poisoned(form));
    ++evidence->runs;
    evidence->shared_runs += form.shares();
    if (!first.empty()) {
      PERI_TRY(s.same_bits(first, form));
      continue;
    }
    std::vector<Tensor> answers;
    for (size_t k = 0; k < s.out.size(); ++k) {
      PERI_ASSIGN(Tensor t, s.answer(k));
      PERI_ASSIGN(Tensor row_major, from_layout(t, s.region.outputs[k]->type.layout, s.out_dims[k]));
      answers.push_back(std::move(row_major));
      first.push_back(std::move(t));
    }
    if (expected) {
      PERI_ASSIGN(worst, compare(*expected, answers));
    }
    if (outputs) *outputs = std::move(answers);
  }
  return worst;
}

namespace {
constexpr int64_t kMostSamples = 64, kMostCoolSamples = 15;

int64_t read_lines(std::span<const std::byte> bytes) {
  int64_t sum = 0;
  for (size_t k = 0; k + 64 <= bytes.size(); k += 64) sum += static_cast<int64_t>(bytes[k]);
  return sum;
}
}  // namespace

void Trial::cool(std::span<const std::byte> rest) {
  State& s = *state_;
  const size_t parts = static_cast<size_t>(s.pool->threads());
  auto read_part = [&](std::span<const std::byte> bytes, int64_t part) {
    const size_t each = bytes.size() / parts / 64 * 64;
    volatile int64_t keep = read_lines(bytes.subspan(static_cast<size_t>(part) * each, each));
    (void)keep;
  };
  s.pool->run(static_cast<int64_t>(parts), [&](int64_t part, int) { read_part(rest, part); });
  s.pool->run(static_cast<int64_t>(parts), [&](int64_t part, int) {
    for (size_t k = 0; k < s.in.size(); ++k)
      if (!s.constant[k]) read_part({s.in[k].data(), s.in[k].bytes()}, part);
  });
}

void Trial::time(double budget_ms, int64_t least_samples, std::span<const std::byte> rest, Evidence* evidence) {
  const bool cools =
      !rest.empty() && std::find(state_->constant.begin(), state_->constant.end(), true) != state_->constant.end();
  bench::Schedule schedule{.warm_up_seconds = 0, .seconds = budget_ms * 1e-3, .min_samples = least_samples};
  schedule.max_samples = cools ? kMostCoolSamples : kMostSamples;
  if (cools) schedule.before = [&] { cool(rest); };
  const Form form = state_->private_form();
  state_->bind(form);
  const auto samples = bench::time_runs(schedule, [&]() -> Status { return (void)state_->run(form), Ok{}; });
  evidence->time_ms = stats::quantile(*samples, kTimeQuantile);
  evidence->statistic = kTimeStatistic;
  evidence->samples = static_cast<int64_t>(samples->size());
  evidence->visits = 1;
  evidence->spread = -1;
}

}  // namespace peri::tune
