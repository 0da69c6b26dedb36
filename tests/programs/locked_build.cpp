// locked_build MODEL LOCK TARGET ENGINE [NAME=SIZE ...]: builds for the recorded machine of TARGET by the choices of
// LOCK, without that machine, writes the engine and prints its hash and steps. With sizes it is run on the null device
// too, each step as the float64 reference of its region in its layouts, and every number of its answer is finite.
// LOCK "-": in float16 by what kernels expect to take, at those sizes; not run, but its steps and memory are listed.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/hash.hpp"
#include "build/open.hpp"
#include "compile/compile.hpp"
#include "device/target.hpp"
#include "judge/seeded.hpp"
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
        return Error(ErrorKind::kAccuracy, format("output %zu at %lld is no number", k, static_cast<long long>(at)));
  return Ok{};
}

Result<DimBinding> sizes_of(int count, char** words) {
  DimBinding dims;
  for (int k = 5; k < count; ++k) {
    const std::string word = words[k];
    const size_t at = word.find('=');
    if (at == std::string::npos) return usage("'%s' is no NAME=SIZE", word.c_str());
    dims[word.substr(0, at)] = std::atoll(word.c_str() + at + 1);
  }
  return dims;
}

void list(const compile::Compiled& made) {
  for (size_t k = 0; k < made.steps.size(); ++k)
    std::printf("%3zu %-8s %-40s %s\n", k, made.steps[k].device.empty() ? "host" : made.steps[k].device.c_str(),
                made.steps[k].chosen.c_str(), made.steps[k].name.c_str());
  const DimBinding tuned(made.program.tuned_for.begin(), made.program.tuned_for.end());
  for (const std::string& line : plan::memory_lines(made.program, tuned)) std::printf("%s\n", line.c_str());
}

Status run(int count, char** words) {
  if (count < 5) return usage("locked_build MODEL LOCK TARGET ENGINE [NAME=SIZE ...]");
  compile::Options o;
  o.model = words[1];
  PERI_ASSIGN(o.tune.target, device::read_target(words[3]));
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
  std::printf("%s %zu %lld\n", hex64(plan::engine_hash(engine.file->bytes())).c_str(), made.program.steps.size(),
              static_cast<long long>(away));
  if (guessed) {
    list(made);
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
