// Sums what the two processes of a build hold at the two times when they hold the most.
#include "build/build_memory.hpp"

#include <algorithm>
#include <set>

#include "device/target.hpp"
#include "ir/bodies.hpp"
#include "judge/sizes.hpp"
#include "lower/control.hpp"
#include "plan/memory.hpp"
#include "problem/problem.hpp"
#include "tune/judge.hpp"
#include "tune/trial_memory.hpp"

namespace peri::build {
namespace {

// The program itself and its worker, with the libraries that they load.
constexpr double kProgramBytes = 30 << 20, kWorkerBytes = 45 << 20;
// Of the samples that each kernel is tested with once on a machine.
constexpr double kSamplesBytes = 140 << 20;
// Of freed memory, that the worker keeps between problems.
constexpr double kKeptBytes = 256 << 20;

using Blocks = std::set<const void*>;

double bytes_of(const ir::Graph& graph, Blocks* seen) {
  double bytes = 0;
  for (const ir::Value* v : graph.constants())
    if (const auto block = v->constant->bytes(); !block.empty() && seen->insert(block.data()).second)
      bytes += static_cast<double>(block.size());
  for (const ir::Node* n : graph.nodes)
    for (const auto& [key, body] : ir::bodies_of(*n)) bytes += bytes_of(*body, seen);
  return bytes;
}

double bytes_of(const std::vector<Tensor>& weights) {
  Blocks seen;
  double bytes = 0;
  for (const Tensor& t : weights)
    if (seen.insert(t.bytes().data()).second) bytes += static_cast<double>(t.bytes().size());
  return bytes;
}

// Of the largest problem.
double trial_of(const compile::Compiled& compiled) {
  double most = 0;
  std::set<std::string> seen;
  for (const lower::StepReport* s : lower::all_reports(compiled.steps)) {
    if (s->problem.empty() || !seen.insert(s->problem).second) continue;
    if (const auto problem = problem::parse(s->problem); problem.ok())
      most = std::max(most, tune::trial_bytes(problem->graph) + tune::reference_bytes(problem->graph));
  }
  return most;
}
}  // namespace

BuildMemory memory_of_build(const compile::Compilation& compilation, const compile::Compiled& compiled, bool tries,
                            bool judges, int threads) {
  Blocks seen;
  BuildMemory out;
  const double held = kProgramBytes + bytes_of(compilation.imported(), &seen) + bytes_of(compilation.graph(), &seen);
  out.trying = out.judging = held;
  if (tries) {
    const double trial = trial_of(compiled);
    const auto between = static_cast<double>(
        tune::traffic_bytes(lower::weight_bytes_of(compilation.graph()), device::this_cpu(), threads));
    out.trying += kWorkerBytes + between + trial;
    out.first = held + kWorkerBytes + between + std::max(trial, kSamplesBytes);
    out.judging += kWorkerBytes + between + std::min(trial, kKeptBytes);
  }
  double run = 0;
  const std::vector<DimBinding> sizes =
      judges ? judge::sizes_to_judge(compilation.graph(), compilation.tuned_for(), compilation.bounds())
             : std::vector<DimBinding>{compilation.tuned_for()};
  for (const DimBinding& at : sizes) {
    if (const auto bytes = judge::bytes_to_judge(compiled.program, at); judges && bytes.ok())
      run = std::max(run, *bytes);
    if (const auto arena = plan::plan_arena(compiled.program, at); !judges && arena.ok())
      run = static_cast<double>(arena->arena_bytes);
  }
  out.judging += bytes_of(compiled.weights) + run;
  out.first = std::max(out.first, out.peak());
  return out;
}

}  // namespace peri::build
