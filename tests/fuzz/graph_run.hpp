// Takes a parsed graph through everything: passes, lowering without measuring for the CPU or the null device, an
// engine, and two runs of it, within a budget of nodes, work and memory. A fault ends the process.
#pragma once

#include <cmath>
#include <set>

#include "backends/cpu/backend.hpp"
#include "backends/null/backend.hpp"
#include "base/hash.hpp"
#include "ir/bodies.hpp"
#include "lower/lower.hpp"
#include "passes/pipeline.hpp"
#include "plan/engine_file.hpp"
#include "tests/fuzz/engine_run.hpp"

namespace peri::fuzz {

inline constexpr size_t kMaxNodes = 128;

// Work of a graph as far as its sizes are numbers, including bodies and what folding may have to compute.
inline double known_work(const ir::Graph& g) {
  double sum = 0;
  for (const auto& v : g.values()) {
    double n = v->type.shape ? 1 : 0;
    for (const Dim& d : v->type.shape ? *v->type.shape : Shape())
      n *= d.is_const() ? static_cast<double>(d.value()) : 1;
    sum += n;
  }
  for (const ir::Node* n : g.nodes) {
    const ops::Cost c = ops::cost_of(*n);
    if (!std::isfinite(c.flops) &&
        n->op == "loop") {  // the number of iterations depends on data: at most the engine's limit
      for (const auto& [key, body] : ir::bodies_of(*n)) sum += static_cast<double>(kMaxIterations) * known_work(*body);
      continue;
    }
    sum += c.flops + c.bytes_read + c.bytes_written;
    for (const auto& [key, attr] : n->attrs)
      if (const auto* body = std::get_if<std::shared_ptr<ir::Graph>>(&attr)) sum += known_work(**body);
  }
  return sum;
}

// REQUIRES: types are inferred.
inline void build_and_run(ir::Graph graph) {
  if (graph.nodes.size() > kMaxNodes || known_work(graph) > kMaxWork) return;
  auto passed = passes::run_pipeline(graph, {});
  if (!passed.ok()) return stop_at_fault(passed.error());
  lower::Options options;
  for (const ir::Value* v : graph.inputs) {
    std::set<std::string> names;
    for (const Dim& d : *v->type.shape) d.collect_symbols(names);
    for (const std::string& name : names) options.tuned_for[name] = 3;
  }
  tune::Options plain;
  plain.measure = plain.verify = false;
  tune::Tuner tuner(plain);
  const bool away = hash_text(ir::print(graph)) % 4 == 0;
  auto lowered = lower::lower_graph(graph, away ? backends::null::backend() : backends::cpu::backend(), tuner, options);
  if (!lowered.ok()) return stop_at_fault(lowered.error());
  for (const lower::StepReport& step : lowered->steps)
    for (const auto& [kernel, reason] : step.refusals)
      if (reason.starts_with("internal check failed")) stop_at_fault(internal_error("%s", reason.c_str()));
  auto engine = plan::assemble_engine(std::move(lowered->program), lowered->weights);
  if (!engine.ok()) return stop_at_fault(engine.error());
  load_and_run(std::move(engine->program), {engine->weight_bytes, engine->keep, {}}, true);
}

}  // namespace peri::fuzz
