// locked_build MODEL LOCK TARGET ENGINE [NAME=SIZE ...]: builds for the recorded machine of TARGET by the choices of
// LOCK, without that machine, writes the engine and prints its hash, steps, those of the device, and what these launch
// at the tuned sizes. With sizes it is run on the null device too, each step as the float64 reference of its region in
// its layouts, and every number of its answer is finite.
// LOCK "-": in float16 by what kernels expect to take, at those sizes; not run, but its steps and memory are listed.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>

#include "base/hash.hpp"
#include "build/open.hpp"
#include "compile/compile.hpp"
#include "device/target.hpp"
#include "exec/region/region_payload.hpp"
#include "judge/seeded.hpp"
#include "kernels/cuda/code/launch.hpp"
#include "plan/engine_file.hpp"
#include "plan/lock_file.hpp"
#include "plan/memory.hpp"

namespace peri {
namespace {

// The same steps in the same order and memory on a device without hardware.
plan::Program on_null(plan::Program p) {
  for (std::string& device : p.devices)
    if (device == "cuda") device = "null";
  for (plan::Step& s : p.steps) {
    if (s.executor == "cuda") s.executor = "null";
    for (plan::Variant& v : s.variants) v.library = v.requires_isa = "";
  }
  return p;
}

Status run_on_null(const compile::Compiled& made, DimBinding dims) {
  for (const auto& [name, size] : made.program.tuned_for) dims.emplace(name, size);
  runtime::WeightSource weights;
  weights.tensors = made.weights;
  PERI_ASSIGN(const auto engine,
              runtime::Engine::create(on_null(made.program), std::move(weights), build::run_options(0)));
  PERI_ASSIGN(const auto session, runtime::Session::create(engine));
  PERI_ASSIGN(const std::vector<Tensor> inputs, judge::random_inputs(made.program, dims, 7));
  PERI_ASSIGN(const std::vector<Tensor> outputs, session->run(inputs));
  for (size_t k = 0; k < outputs.size(); ++k)
    for (int64_t at = 0; at < outputs[k].numel(); ++at)
      if (!std::isfinite(outputs[k].f64(at)))
        return Error(ErrorKind::kAccuracy, format("output %zu at %lld is not a number", k, static_cast<long long>(at)));
  return Ok{};
}

Result<DimBinding> sizes_of(int count, char** words) {
  DimBinding dims;
  for (int k = 5; k < count; ++k) {
    const std::string word = words[k];
    const size_t at = word.find('=');
    if (at == std::string::npos) return usage("'%s' is not a NAME=SIZE", word.c_str());
    dims[word.substr(0, at)] = std::atoll(word.c_str() + at + 1);
  }
  return dims;
}

// What a step of the device puts into its queue in a run at the tuned sizes: the launches of its kernel, each call of a
// library as one, a copy as one.
Result<size_t> launches_of(const plan::Program& p, const plan::Step& step, const device::Target& target) {
  if (step.executor != "cuda") return size_t{1};
  PERI_ASSIGN(const exec::RegionPayload payload, exec::read_payload(step.variants[0].payload));
  const DimBinding dims(p.tuned_for.begin(), p.tuned_for.end());
  PERI_ASSIGN(const ir::Graph region, exec::bind_region(payload.graph, dims));
  std::vector<bool> constant;
  for (const int32_t b : step.reads)
    constant.push_back(b >= 0 &&
                       p.buffers[static_cast<size_t>(plan::storage_of(p, b))].kind == plan::BufferKind::kWeight);
  constant.resize(region.inputs.size());
  const kernels::Kernel* const kernel = kernels::find(payload.kernel);
  if (!kernel) return invalid("no kernel '%s'", payload.kernel.c_str());
  const std::vector<Tensor> none(region.inputs.size());
  kernels::Packed packed;
  PERI_ASSIGN(const auto made,
              kernel->instantiate({&region, constant}, payload.config, {none, &packed, &target, nullptr}));
  const auto* const plan = dynamic_cast<const kernels::cuda::LaunchInstance*>(made.get());
  if (!plan) return invalid("kernel '%s' gives no launches", payload.kernel.c_str());
  return plan->calls().size() + plan->launches().size();
}

Result<std::vector<size_t>> launches_of(const plan::Program& p, const device::Target& target) {
  std::vector<size_t> out;
  for (const plan::Step& s : p.steps) {
    auto count = s.device == plan::kHost ? Result<size_t>(size_t{0}) : launches_of(p, s, target);
    if (!count.ok()) return std::move(count).error().at_node(s.name);
    out.push_back(*count);
  }
  return out;
}

void list(const compile::Compiled& made, const std::vector<size_t>& launches) {
  for (size_t k = 0; k < made.steps.size(); ++k)
    std::printf("%3zu %-8s %2zu %-40s %s\n", k, made.steps[k].device.empty() ? "host" : made.steps[k].device.c_str(),
                launches[k], made.steps[k].chosen.c_str(), made.steps[k].name.c_str());
  const DimBinding tuned(made.program.tuned_for.begin(), made.program.tuned_for.end());
  for (const std::string& line : plan::memory_lines(made.program, tuned)) std::printf("%s\n", line.c_str());
}

Status run(int count, char** words) {
  if (count < 5) return usage("locked_build MODEL LOCK TARGET ENGINE [NAME=SIZE ...]");
  compile::Options o;
  o.model = words[1];
  PERI_ASSIGN(o.tune.target, device::read_target(words[3]));
  const device::Target target = *o.tune.target;
  o.tune.measure = o.tune.verify = false;
  PERI_ASSIGN(DimBinding dims, sizes_of(count, words));
  const bool guessed = std::string_view(words[2]) == "-";
  if (guessed) {
    o.backend = "cuda";
    o.dtype = o.io_dtype = DType::kF16;
    o.dims.insert(dims.begin(), dims.end());
  } else {
    PERI_ASSIGN(o.lock, plan::read_lock(words[2]));
    o.builder = o.lock->builder;
  }
  PERI_ASSIGN(const compile::Compiled made, compile::compile(std::move(o)));
  PERI_TRY(plan::write_engine(words[4], made.program, made.weights));
  PERI_ASSIGN(const plan::LoadedEngine engine, plan::load_engine(words[4]));
  int64_t away = 0;
  for (const plan::Step& s : made.program.steps) away += s.device != plan::kHost;
  PERI_ASSIGN(const std::vector<size_t> launches, launches_of(made.program, target));
  std::printf("%s %zu %lld %zu\n", hex64(plan::engine_hash(engine.file->bytes())).c_str(), made.program.steps.size(),
              static_cast<long long>(away), std::accumulate(launches.begin(), launches.end(), size_t{0}));
  if (guessed) {
    list(made, launches);
    return Ok{};
  }
  return dims.empty() ? Status(Ok{}) : run_on_null(made, std::move(dims));
}
}  // namespace
}  // namespace peri

int main(int count, char** words) {
  const peri::Status done = peri::run(count, words);
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.error().text().c_str());
  return done.ok() ? 0 : 1;
}
