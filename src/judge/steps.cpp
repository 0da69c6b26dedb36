// The hook around each step: arguments that a result will overwrite are copied before it, results are judged after it.
#include "judge/steps.hpp"

#include <algorithm>
#include <cmath>

#include "device/target.hpp"
#include "exec/entry.hpp"
#include "exec/region/region_payload.hpp"
#include "judge/pieces.hpp"
#include "judge/whole.hpp"
#include "kernels/cpu/move/widened.hpp"
#include "tune/expected.hpp"
#include "tune/layouts.hpp"

namespace peri::judge {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 27;  // of all values kept in float64 at once, radii besides: 2 GiB
constexpr uint64_t kSeed = 7;                       // any: it chooses the positions that are compared

// Contents of a buffer as the region's value `v` calls it, row-major.
Result<Tensor> contents(const runtime::Session& session, int32_t buffer, const ir::Value& v) {
  const plan::Buffer& b = session.engine().program().buffers[static_cast<size_t>(buffer)];
  if (b.weight >= 0) {
    PERI_ASSIGN(Tensor stored, session.engine().weight(static_cast<size_t>(b.weight)));
    return stored.dtype() == v.type.dtype ? std::move(stored) : kernels::cpu::widened(stored, device::this_cpu());
  }
  PERI_ASSIGN(Tensor t, session.buffer_contents(buffer));
  if (v.type.layout.row_major()) return t;
  PERI_ASSIGN(const std::vector<int64_t> dims, eval(*v.type.shape, session.binding()));
  return tune::from_layout(t, v.type.layout, dims);
}

struct Judge {
  runtime::Session& session;
  const Values& source;
  const plan::Program& program;
  std::vector<int32_t> storage = plan::storages(program);
  std::set<int32_t> overflowed = {};    // storages that hold what came of an overflow
  std::map<size_t, Tensor> taken = {};  // arguments of the current step whose memory a result takes, as stored

  Status before(size_t k) {
    taken.clear();
    const plan::Step& step = program.steps[k];
    for (int32_t i : step.shares) {
      if (i < 0) continue;
      PERI_ASSIGN(taken[static_cast<size_t>(i)], session.buffer_contents(step.reads[static_cast<size_t>(i)]));
    }
    session.poison_results(k);
    return Ok{};
  }

  Result<Tensor> argument(const plan::Step& step, size_t k, const ir::Value& v) {
    const auto it = taken.find(k);
    if (it == taken.end()) return contents(session, step.reads[k], v);
    if (v.type.layout.row_major()) return it->second;
    PERI_ASSIGN(const std::vector<int64_t> dims, eval(*v.type.shape, session.binding()));
    return tune::from_layout(it->second, v.type.layout, dims);
  }

  bool reads_overflow(const plan::Step& step) const {
    return std::any_of(step.reads.begin(), step.reads.end(),
                       [&](int32_t b) { return b >= 0 && overflowed.contains(storage[static_cast<size_t>(b)]); });
  }

  // Whether a finite sum of the region is near the largest float or beyond it, so that an order of the sum overflows,
  // as any other engine in float32 may, and what is made of that is another infinity, NaN or zero in each; and whether
  // results are off there alone, where they are no numbers or where the exact ones are so large.
  bool overflows_alone(const ir::Graph& region, const tune::Expected& expected, std::span<const Tensor> in,
                       std::span<const Tensor> got) const {
    std::vector<Tensor> rest;
    for (size_t k = 0; k < got.size(); ++k) {
      const tune::Expected& one = tune::expected_of(expected, k);
      const ops::RefTensor& want = one.out[expected.each.empty() ? k : 0];
      auto copy = want.floating() ? Tensor::zeros(got[k].dtype(), got[k].dims()) : Result<Tensor>(got[k]);
      if (!copy.ok()) return false;
      rest.push_back(*std::move(copy));
      if (!want.floating()) continue;
      const bool some = !one.positions.empty();
      for (int64_t n = 0; n < (some ? std::ssize(one.positions) : got[k].numel()); ++n) {
        const int64_t at = some ? one.positions[static_cast<size_t>(n)] : n;
        const double w = want.f[static_cast<size_t>(at)], g = got[k].f64(at);
        rest[k].set_f64(at, std::isfinite(g) && std::fabs(w) <= tune::kNearOverflow ? g : w);
      }
    }
    if (!tune::compare(expected, rest).ok()) return false;
    std::vector<ops::RefTensor> arguments;
    for (const Tensor& t : in) arguments.push_back(ops::to_ref(t));
    const auto m = magnitudes_of(region, arguments, session.engine().options().threads);
    return m.ok() && m->near_overflow;
  }

  void mark_overflow(const plan::Step& step, StepVerdict* verdict) {
    verdict->overflows = true;
    for (const int32_t b : step.writes)
      if (b >= 0) overflowed.insert(storage[static_cast<size_t>(b)]);
  }

  // Holds result `k` against the source's value of the same name.
  void hold_against_source(const plan::Step& step, size_t k, const Tensor& got, StepVerdict* verdict) {
    const auto it = source.by_name.find(program.buffers[static_cast<size_t>(step.writes[k])].name);
    if (it == source.by_name.end() || it->second.dims != got.dims() || it->second.dtype != got.dtype()) return;
    tune::Expected wanted;
    wanted.out.push_back(it->second);
    const auto far = tune::compare(wanted, {&got, 1});
    if (far.ok()) return;
    std::string why =
        "it does what its region says, but not what the source says of '" + it->first + "': " + far.error().text();
    if (source.behind_jumps.contains(it->first)) {
      if (verdict->parted.empty()) verdict->parting = std::move(why);
      if (verdict->parted.empty()) verdict->parted = it->first;
      return;
    }
    verdict->wrong = true;
    verdict->why = std::move(why);
  }

  Status after(size_t k, StepVerdict* verdict) {
    const plan::Step& step = program.steps[k];
    if (reads_overflow(step)) {
      mark_overflow(step, verdict);
      return Ok{};
    }
    for (const int32_t b : step.writes)  // the memory of an earlier value
      if (b >= 0) overflowed.erase(storage[static_cast<size_t>(b)]);
    if (!step.bodies.empty() || step.executor == plan::kCopyExecutor) return Ok{};
    PERI_ASSIGN(const size_t variant,
                plan::choose_variant(step, session.engine().options().machine, session.binding()));
    PERI_ASSIGN(const exec::RegionPayload payload, exec::read_payload(step.variants[variant].payload));
    verdict->kernel = payload.kernel;
    verdict->candidate = payload.kernel + "@" + std::to_string(payload.version) + " {" + payload.config + "}";
    const exec::Entry* const executor = exec::find(step.executor);
    const bool by_definition = executor && executor->by_definition;
    if (by_definition && source.by_name.empty()) return Ok{};
    PERI_ASSIGN(const ir::Graph region,
                exec::bind_region(payload.graph, session.binding(), executor && executor->data_sizes));
    std::vector<Tensor> in, out;
    for (size_t n = 0; n < region.outputs.size(); ++n) {
      PERI_ASSIGN(Tensor t, contents(session, step.writes[n], *payload.graph.outputs[n]));
      out.push_back(std::move(t));
    }
    if (!by_definition) {
      for (size_t n = 0; n < region.inputs.size(); ++n) {
        PERI_ASSIGN(Tensor t, argument(step, n, *payload.graph.inputs[n]));
        in.push_back(std::move(t));
      }
      PERI_ASSIGN(const tune::Expected expected,
                  tune::make_expected(region, in, session.engine().options().threads, kSeed));
      verdict->checked = true;
      for (size_t n = 0; n < out.size(); ++n) {
        const tune::Expected& one = tune::expected_of(expected, n);
        verdict->positions += one.positions.empty() ? out[n].numel() : static_cast<int64_t>(one.positions.size());
      }
      const auto error = tune::compare(expected, out);
      const auto infinite = [](const Tensor& t) { return !all_finite(t); };
      const bool own = std::any_of(out.begin(), out.end(), infinite) && std::none_of(in.begin(), in.end(), infinite);
      if ((!error.ok() || own) && overflows_alone(region, expected, in, out)) {
        mark_overflow(step, verdict);
        return Status(Ok{});
      }
      if (!error.ok()) {
        verdict->wrong = true;
        verdict->why = error.error().text();
        return Status(Ok{});
      }
      verdict->error = *error;
    }
    for (size_t n = 0; n < out.size() && !verdict->wrong; ++n) hold_against_source(step, n, out[n], verdict);
    return Ok{};
  }
};
}  // namespace

Result<std::vector<Tensor>> results_of(const runtime::Session& session, size_t k) {
  const plan::Step& step = session.engine().program().steps[k];
  std::vector<Tensor> out;
  std::optional<exec::RegionPayload> payload;
  if (step.bodies.empty() && step.executor != plan::kCopyExecutor) {
    PERI_ASSIGN(const size_t variant,
                plan::choose_variant(step, session.engine().options().machine, session.binding()));
    PERI_ASSIGN(payload, exec::read_payload(step.variants[variant].payload));
  }
  for (size_t n = 0; n < step.writes.size(); ++n) {
    if (step.writes[n] < 0) continue;
    auto t = payload ? contents(session, step.writes[n], *payload->graph.outputs[n])
                     : session.buffer_contents(step.writes[n]);
    PERI_TRY(t);
    out.push_back(std::move(*t));
  }
  return out;
}

Result<Values> source_values(const ir::Graph& source, const plan::Program& program, const DimBinding& binding,
                             std::span<const Tensor> inputs, int threads) {
  ir::Graph g = source.clone();
  std::vector<std::string> names;
  int64_t elements = 0;
  double u = unit_roundoff(DType::kF32);  // of what is stored on the way, which each value behind it carries on
  g.outputs.clear();
  g.output_names.clear();
  for (const plan::Step& s : program.steps)
    for (int32_t b : s.writes) {
      if (b < 0) continue;
      const plan::Buffer& buffer = program.buffers[static_cast<size_t>(b)];
      if (is_float(buffer.dtype)) u = std::max(u, unit_roundoff(buffer.dtype));
      ir::Value* v = g.find(buffer.name);
      if (!v || v->constant || v->is_input || g.is_output(v) || !v->type.known() || !is_float(v->type.dtype)) continue;
      auto dims = eval(*v->type.shape, binding);
      if (!dims.ok()) continue;
      PERI_ASSIGN(const int64_t n, checked_numel(*dims));
      if ((elements += n) > kMaxElements) return Values();
      g.mark_output(v, v->name);
      names.push_back(v->name);
    }
  if (names.empty()) return Values();
  std::vector<ops::RefTensor> in;
  for (const Tensor& t : inputs) in.push_back(ops::to_ref(t));
  PERI_ASSIGN(auto out, ops::run_reference(g, in, {u, threads, false, {}}));
  Values values;
  const auto jumpy = values_behind_jumps(g);
  for (size_t k = 0; k < out.size(); ++k) {
    if (jumpy.contains(g.find(names[k]))) values.behind_jumps.insert(names[k]);
    values.by_name.emplace(names[k], std::move(out[k]));
  }
  return values;
}

Result<JudgedRun> judge_steps(runtime::Session& session, std::span<const Tensor> inputs, const Values& source,
                              const std::function<void(size_t, size_t)>& progress, size_t* current) {
  const plan::Program& program = session.engine().program();
  std::vector<std::vector<int64_t>> dims;
  for (const Tensor& t : inputs) dims.push_back(t.dims());
  PERI_TRY(session.prepare(dims));
  session.poison();
  Judge judge{session, source, program};
  JudgedRun run;
  session.set_step_hook([&](size_t k, bool before) {
    *current = k;
    if (run.wrong()) return;
    if (before && progress) progress(k, program.steps.size());
    StepVerdict v{k, program.steps[k].name};
    const Status done = before ? judge.before(k) : judge.after(k, &v);
    if (!done.ok()) {
      v.checked = false;
      v.why = "cannot be judged: " + done.error().text();
    }
    if (!before) run.steps.push_back(std::move(v));
  });
  auto outputs = session.run(inputs);
  session.set_step_hook({});
  if (!outputs.ok()) return std::move(outputs).error();
  run.outputs = std::move(*outputs);
  return run;
}

}  // namespace peri::judge
