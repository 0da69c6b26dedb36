// Size by size, with the cheapest check first.
#include "judge/engine.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "base/clock.hpp"
#include "base/stop.hpp"
#include "exec/entry.hpp"
#include "exec/region/layouts.hpp"
#include "exec/region/region_payload.hpp"
#include "judge/difference.hpp"
#include "judge/followed.hpp"
#include "judge/inputs.hpp"
#include "judge/sizes.hpp"
#include "judge/whole.hpp"

namespace peri::judge {

std::string sizes_text(const DimBinding& sizes) {
  std::string out;
  for (const auto& [name, value] : sizes) out += (out.empty() ? "" : ",") + name + "=" + std::to_string(value);
  return out.empty() ? "its fixed size" : out;
}

namespace {

// Up to this many flops the whole answer is computed in float64, twice (exact and rounded), about a second of two
// threads.
constexpr double kMaxWholeFlops = 1e9;
// The reference makes every element with its radius, at some tens of millions a second and 16 bytes each.
constexpr double kMaxWholeElements = 1 << 28;
// Of a value on the way to an answer behind a rounding: as many as its step is judged at, and a sixteenth of that where
// the model is large, so that following takes no share of a build that one would notice.
// Rests on: tests/build/followed_test.cpp (ABuildHoldsPartsOfALargeAnswer).
constexpr int64_t kFollowedPositions = 4096, kFollowedOfLarge = 256;

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.dims() != b.dims()) return false;
  return !exec::first_difference(a, b);
}

// Elements that one run has the reference executor compute; steps in bodies run an unknown number of times, and do not
// count.
double by_reference(const plan::Program& program, const DimBinding& sizes) {
  double out = 0;
  for (const plan::Step& s : program.steps) {
    const exec::Entry* const executor = exec::find(s.executor);
    if (!executor || !executor->by_definition) continue;
    for (const int32_t b : s.writes)
      if (b >= 0)
        if (const auto dims = eval(program.buffers[static_cast<size_t>(b)].shape, sizes); dims.ok())
          out += std::accumulate(dims->begin(), dims->end(), 1.0, std::multiplies<>());
  }
  return out;
}

struct EngineJudge {
  std::shared_ptr<const runtime::Engine> engine;
  const ir::Graph& imported;
  const ir::Graph& graph;
  const Terms& terms;
  std::unique_ptr<runtime::Session> planned, separate;
  EngineVerdict verdict = {};
  std::set<size_t> followed = {};  // outputs that were

  int threads() const { return engine->options().threads; }

  // Whether the model itself runs on these inputs, its loops no longer than the engine's may.
  Status reference(std::span<const Tensor> inputs) const {
    std::vector<ops::RefTensor> in;
    for (const Tensor& t : inputs) in.push_back(ops::to_ref(t));
    ops::RefOptions options{0, threads(), false, {}};
    options.most_iterations = engine->options().max_iterations;
    PERI_ASSIGN(const auto out, ops::run_reference(imported, in, options));
    return Ok{};
  }

  // Whether what failed was stopped, which says nothing; noted.
  bool was_stopped(const Error& error, const DimBinding& sizes) {
    if (error.kind != ErrorKind::kCancelled) return false;
    verdict.incomplete = "interrupted before " + sizes_text(sizes) + " was judged";
    verdict.lasting = false;
    return true;
  }

  void fault_at(size_t step, const std::string& candidate, std::string why, const DimBinding& sizes) {
    const plan::Step& s = engine->program().steps[step];
    Fault f{step, s.name, candidate, std::move(why) + " (at " + sizes_text(sizes) + ")", sizes};
    if (f.candidate.empty() && s.bodies.empty()) {
      const auto variant = plan::choose_variant(s, engine->options().machine, sizes);
      auto payload = exec::read_payload(s.variants[variant.ok() ? *variant : 0].payload);
      if (payload.ok())
        f.candidate = payload->kernel + "@" + std::to_string(payload->version) + " {" + payload->config + "}";
    }
    verdict.fault = std::move(f);
  }

  // The step an error names: instances are made before the first step runs.
  size_t step_of(const Error& error, size_t current) const {
    const auto& steps = engine->program().steps;
    for (size_t k = 0; k < steps.size(); ++k)
      if (!error.node.empty() && steps[k].name == error.node) return k;
    for (size_t k = 0; k < steps.size(); ++k)
      if (const auto& from = steps[k].origins; std::find(from.begin(), from.end(), error.node) != from.end()) return k;
    return current;
  }

  // A run that failed: the model's own limit, or a fault of the step it was at. False: these inputs say nothing.
  bool explain_failure(const Error& error, size_t step, std::span<const Tensor> inputs, double flops,
                       const DimBinding& sizes, SizeEvidence* evidence) {
    if (error.kind == ErrorKind::kMemory) {
      evidence->limit = error.text();
      verdict.lasting = false;
      // How far a loop grows follows from the values that it is given, here made up, as the number of its iterations.
      evidence->no_memory = engine->program().steps[step_of(error, step)].bodies.empty();
      return evidence->no_memory;
    }
    const bool about_data =
        error.kind == ErrorKind::kInvalid || error.kind == ErrorKind::kUsage || error.kind == ErrorKind::kUnsupported;
    if (about_data && !possible(graph, sizes)) {  // an operator of the model that broadcasts may have run
      evidence->limit = error.text();
      return true;
    }
    if (flops <= kMaxWholeFlops) {
      const Status right = reference(inputs);
      if (!right.ok()) {
        evidence->limit = right.error().text();
        return about_data ? false : true;
      }
    } else if (about_data) {
      evidence->limit = error.text();
      return false;
    }
    fault_at(step_of(error, step), "", "it does not run: " + error.text(), sizes);
    return true;
  }

  void take_steps(const JudgedRun& run, SizeEvidence* e) {
    for (const StepVerdict& v : run.steps) {
      if (v.overflows && e->overflowed++ == 0) e->overflow = v.name;
      if (v.overflows) continue;
      (v.checked ? e->steps_judged : e->steps_by_definition) += 1;
      e->positions += v.positions;
      if (!v.checked && !v.why.empty()) verdict.lasting = false;  // it could not be judged
      e->worst_step = std::max(e->worst_step, v.error);
      if (v.wrong) fault_at(v.step, v.candidate, v.why, e->sizes);
    }
  }

  void take_nan(const JudgedRun& run, SizeEvidence* e) const {
    for (size_t k = 0; k < run.outputs.size() && e->nan == 0; ++k) {
      e->nan = nan_elements(run.outputs[k]);
      e->nan_elements = run.outputs[k].numel();
      e->nan_of = engine->program().outputs[k].name;
    }
    if (e->nan > 0) return;
    e->nan_elements = 0;
    e->nan_of.clear();
  }

  // The same inputs with every buffer in memory of its own; names the step whose results differ first.
  Status compare_memory(std::span<const Tensor> inputs, const JudgedRun& run, SizeEvidence* e) {
    std::vector<std::vector<int64_t>> dims;
    for (const Tensor& t : inputs) dims.push_back(t.dims());
    const bool lacks = !lacks_memory(engine->program(), e->sizes, true).empty();
    const auto no_room = [&] {
      verdict.incomplete = "no memory for separate buffers at " + sizes_text(e->sizes);
      verdict.lasting = false;
      return Ok{};
    };
    Status ready = lacks ? Status(Error(ErrorKind::kMemory, "")) : separate->prepare(dims);
    if (!ready.ok() && ready.error().kind == ErrorKind::kMemory) return no_room();
    PERI_TRY(std::move(ready));
    separate->poison();
    size_t at = 0;
    separate->set_step_hook([&](size_t k, bool) { at = k; });
    auto apart = separate->run(inputs);
    separate->set_step_hook({});
    if (!apart.ok() && was_stopped(apart.error(), e->sizes)) return Ok{};
    if (!apart.ok() && apart.error().kind == ErrorKind::kMemory) return no_room();  // a step's own
    if (!apart.ok()) {
      fault_at(step_of(apart.error(), at), "", apart.error().text(), e->sizes);
      return Status(Ok{});
    }
    for (size_t k = 0; k < apart->size() && !verdict.fault; ++k)
      if (!same_bits((*apart)[k], run.outputs[k])) {
        PERI_ASSIGN(const size_t step, first_difference(inputs));
        fault_at(step, "", "its results depend on where its buffers lie in memory", e->sizes);
      }
    e->same_bits = !verdict.fault;
    return Ok{};
  }

  Result<size_t> first_difference(std::span<const Tensor> inputs) {
    const plan::Program& program = engine->program();
    std::vector<std::vector<Tensor>> seen(program.steps.size());
    const auto results = [&](const runtime::Session& session, size_t k) {
      auto out = results_of(session, k);
      return out.ok() ? std::move(*out) : std::vector<Tensor>();
    };
    std::optional<size_t> first;
    planned->set_step_hook([&](size_t k, bool before) {
      if (!before) seen[k] = results(*planned, k);
    });
    auto one = planned->run(inputs);
    planned->set_step_hook({});
    if (!one.ok()) return std::move(one).error();
    separate->set_step_hook([&](size_t k, bool before) {
      if (before || first) return;
      const std::vector<Tensor> now = results(*separate, k);
      for (size_t n = 0; n < std::min(now.size(), seen[k].size()); ++n)
        if (!same_bits(now[n], seen[k][n])) first = k;
    });
    auto two = separate->run(inputs);
    separate->set_step_hook({});
    if (!two.ok()) return std::move(two).error();
    return first.value_or(0);
  }

  // Outputs behind roundings and choices that are not what float64 says, or are not known to be, value by value; in
  // float32 alone, where a value that is kept is one that the model has.
  Status follow_answers(const std::vector<size_t>& outputs, int64_t positions, std::span<const Tensor> inputs,
                        const JudgedRun& run, SizeEvidence* e) {
    const plan::Program& program = engine->program();
    const bool narrow = program.precision != DType::kF32 || plan::values_type(program) != DType::kF32;
    for (const size_t k : outputs) {
      if (followed.contains(k)) {  // what the passes made of the model is the same at every size
        e->whole_because =
            "outputs behind a comparison, a rounding or a choice were proven value by value at another size";
        continue;
      }
      e->whole_because = "outputs behind a comparison, a rounding or a choice are judged by their steps alone";
      if (narrow) return Ok{};
      const auto f = follow(imported, k, *planned, inputs, run.outputs[k], {threads(), positions, {}});
      if (!f.ok() && was_stopped(f.error(), e->sizes)) return Ok{};
      if (!f.ok()) return Ok{};  // the reference does not reach it: its steps were judged
      if (!f->wrong.empty() && f->at_elements) {
        verdict.wrong = "output '" + imported.output_names[k] + "', held value by value: " + f->wrong + " (at " +
                        sizes_text(e->sizes) + ")";
        return Ok{};
      }
      if (!f->wrong.empty()) return Ok{};
      e->followed += f->values;
      followed.insert(k);
      e->whole_because = "outputs behind a comparison, a rounding or a choice are proven value by value";
    }
    return Ok{};
  }

  Status compare_whole(std::span<const Tensor> inputs, const JudgedRun& run, double flops, SizeEvidence* e) {
    const bool many = elements_at(imported, e->sizes) > kMaxWholeElements;
    if (flops > kMaxWholeFlops || many) {
      if (!std::isfinite(flops)) {
        e->whole_because = "how much the model computes depends on its data";
        return Ok{};
      }
      e->whole_because = many
                             ? format("the model's values have more than %.3g elements at this size", kMaxWholeElements)
                             : "the model takes more than 1 GFLOP at this size";
      std::vector<size_t> jumpy;
      for (size_t k = 0; k < imported.outputs.size(); ++k)
        if (behind_jump(imported, imported.outputs[k])) jumpy.push_back(k);
      return follow_answers(jumpy, kFollowedOfLarge, inputs, run, e);
    }
    const plan::Program& program = engine->program();
    const auto judged =
        judge_whole(imported, inputs, run.outputs, threads(), program.precision, plan::values_type(program));
    if (!judged.ok() && was_stopped(judged.error(), e->sizes)) return Ok{};
    if (!judged.ok()) {  // the model as imported computes what the engine need not
      e->whole_because = "the model as imported does not run on these inputs: " + judged.error().text();
      if (judged.error().kind == ErrorKind::kMemory) verdict.lasting = false;
      return Ok{};
    }
    const WholeVerdict& whole = *judged;
    e->whole = whole.error;
    e->whole_because = whole.left_out.empty() ? whole.stored : whole.left_out;
    if (!whole.wrong.empty()) verdict.wrong = whole.wrong + " (at " + sizes_text(e->sizes) + ")";
    if (whole.wrong.empty()) return follow_answers(whole.parted, kFollowedPositions, inputs, run, e);
    return Ok{};
  }

  // Everything at one size. The model's own limit is no error.
  Status judge_at(const DimBinding& sizes) {
    SizeEvidence e;
    e.sizes = sizes;
    e.limit = lacks_memory(engine->program(), sizes, false);
    e.no_memory = !e.limit.empty();
    if (e.no_memory) {
      verdict.lasting = false;
      verdict.sizes.push_back(std::move(e));
      return Status(Ok{});
    }
    const double flops = flops_at(graph, sizes);
    if (flops > kMaxRunFlops && std::isfinite(flops)) {
      if (verdict.incomplete.empty())
        verdict.incomplete = format("not run at %s: one run takes %.0f Gflop", sizes_text(sizes).c_str(), flops / 1e9);
      return Ok{};
    }
    if (const double slow = by_reference(engine->program(), sizes); slow > kMaxSlowElements) {
      if (verdict.incomplete.empty())
        verdict.incomplete = format("not run at %s: the reference computes %.3g elements in one run, more than %.3g",
                                    sizes_text(sizes).c_str(), slow, kMaxSlowElements);
      return Ok{};
    }
    if (const std::string why = lacks_memory_to_judge(engine->program(), sizes); !why.empty()) {
      verdict.lasting = false;
      if (verdict.incomplete.empty()) verdict.incomplete = "not run at " + sizes_text(sizes) + ": " + why;
      return Ok{};
    }
    for (const Integers integers : {Integers::kIndices, Integers::kZero, Integers::kOne}) {
      e.limit.clear();
      e.integers = integers == Integers::kIndices ? -1 : integers == Integers::kOne;
      auto inputs = make_inputs(graph, sizes, terms.seed, integers);
      if (!inputs.ok()) {
        e.limit = inputs.error().text();
        e.no_memory = inputs.error().kind == ErrorKind::kMemory;
        if (e.no_memory) verdict.lasting = false;
        break;
      }
      size_t at = 0;
      const auto progress = [&](size_t k, size_t steps) {
        if (terms.progress) terms.progress("judge the engine at " + sizes_text(sizes), k, steps);
      };
      auto run = judge_steps(*planned, *inputs, {}, progress, &at);
      if (!run.ok() && was_stopped(run.error(), sizes)) return Ok{};
      if (!run.ok()) {
        if (explain_failure(run.error(), at, *inputs, flops, sizes, &e)) break;
        Error why = std::move(run).error();
        why.remedy.clear();
        if (e.others.empty()) e.others = why.text();
        continue;
      }
      take_steps(*run, &e);
      take_nan(*run, &e);
      if (!verdict.fault) PERI_TRY(compare_memory(*inputs, *run, &e));
      if (!verdict.fault) PERI_TRY(compare_whole(*inputs, *run, flops, &e));
      if (terms.stop && !verdict.incomplete.empty() && terms.stop()) return Ok{};  // half judged is not judged
      break;
    }
    if (!e.limit.empty()) {
      e.others.clear();
      e.integers = -1;
    }
    verdict.sizes.push_back(std::move(e));
    return Ok{};
  }
};
}  // namespace

Result<EngineVerdict> judge_engine(std::shared_ptr<const runtime::Engine> engine, const ir::Graph& imported,
                                   const ir::Graph& graph, const Terms& terms) {
  const int64_t start = now_ns();
  EngineJudge judge{engine, imported, graph, terms, nullptr, nullptr};
  PERI_ASSIGN(judge.planned, runtime::Session::create(engine));
  PERI_ASSIGN(judge.separate, runtime::Session::create(engine));
  const StopScope scope(terms.stop);
  judge.separate->place(runtime::Session::Placement::kSeparate);
  for (const DimBinding& sizes : sizes_to_judge(graph, terms.tuned_for, terms.bounds)) {
    if (terms.stop && terms.stop()) {
      judge.verdict.incomplete = "interrupted before " + sizes_text(sizes) + " was judged";
      judge.verdict.lasting = false;
      break;
    }
    PERI_TRY(judge.judge_at(sizes));
    if (!judge.verdict.right()) break;
  }
  judge.verdict.seconds = seconds_since(start);
  judge.verdict.since = wall_seconds();
  return std::move(judge.verdict);
}

}  // namespace peri::judge
