// Loads a program of any origin and runs it at two sizes within a budget of steps, memory and work; a fault ends the
// process.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "base/rng.hpp"
#include "device/target.hpp"
#include "exec/entry.hpp"
#include "exec/region/region_payload.hpp"
#include "kernels/entry.hpp"
#include "ops/entry.hpp"
#include "runtime/engine.hpp"

namespace peri::fuzz {

using plan::Program;

// An error is acceptable; a fault is a finding.
inline void stop_at_fault(const Error& error) {
  if (error.kind != ErrorKind::kInternal) return;
  std::fprintf(stderr, "%s\n", error.text().c_str());
  std::abort();
}

inline constexpr int64_t kMaxSteps = 64, kMaxBytes = 16 << 20;
inline constexpr int64_t kMaxIterations = 32;  // of a loop, whose body may have no step
inline constexpr double kMaxWork = 2e7;        // operations and elements of all regions together

// Work of every region that can be parsed, including intermediate values; bodies with all of their dimensions at
// `size`.
inline double work(const Program& p, const DimBinding& binding, int64_t size) {
  double sum = 0;
  for (const auto& s : p.steps) {
    for (const auto& body : s.bodies) {
      DimBinding all;
      for (const std::string& name : body->dims) all[name] = size;
      sum += work(*body, all, size);
    }
    for (const auto& v : s.variants) {
      auto payload = exec::read_payload(v.payload);
      if (!payload.ok()) continue;
      auto region = exec::bind_region(payload->graph, binding, true);
      if (!region.ok()) continue;
      for (const auto* n : region->nodes) {
        const ops::Cost c = ops::cost_of(*n);
        sum += c.flops + c.bytes_read + c.bytes_written;
      }
      for (const auto& x : region->values()) {
        auto dims =
            x->type.shape ? eval(*x->type.shape, binding) : Result<std::vector<int64_t>>(std::vector<int64_t>());
        double n = 1;
        for (const int64_t d : dims.ok() ? *dims : std::vector<int64_t>()) n *= static_cast<double>(d);
        sum += n;
      }
    }
  }
  return sum;
}

inline int64_t count_steps(const Program& p) {
  int64_t n = static_cast<int64_t>(p.steps.size());
  for (const auto& s : p.steps)
    for (const auto& body : s.bodies) n += count_steps(*body);
  return n;
}

// Small numbers, some of them zero; the same ones for the same file.
inline Tensor filled(Tensor t, Rng* rng) {
  for (int64_t k = 0; k < t.numel(); ++k) {
    if (t.dtype() == DType::kString)
      t.mutable_strings()[static_cast<size_t>(k)] = rng->below(2) ? "a" : "";
    else if (is_float(t.dtype()))
      t.set_f64(k, static_cast<double>(rng->below(9) - 4) / 2);
    else
      t.set_i64(k, rng->below(5) - 1);
  }
  return t;
}

// Runs once with every dimension of the inputs at `size`.
inline void run(const std::shared_ptr<const runtime::Engine>& engine, runtime::Session* session, int64_t size,
                bool sound) {
  const Program& p = engine->program();
  DimBinding binding;
  for (const std::string& name : p.dims) binding[name] = size;
  std::vector<Tensor> inputs;
  Rng rng(static_cast<uint64_t>(size));
  for (const auto& port : p.inputs) {
    auto dims = eval(port.shape, binding);
    if (!dims.ok()) return;
    auto n = checked_numel(*dims);
    if (!n.ok() || *n > kMaxBytes / 64) return;
    auto t = Tensor::zeros(port.dtype, *dims);
    if (!t.ok()) return;
    inputs.push_back(filled(std::move(*t), &rng));
  }
  if (work(p, binding, size) > kMaxWork) return;
  auto out = session->run(inputs);
  if (out.ok()) return;
  stop_at_fault(out.error());
  if (sound && out.error().message.ends_with("is not bound"))
    stop_at_fault(internal_error("what was built does not run: %s", out.error().text().c_str()));
}

// `sound`: the program was built here, and must load if there is memory for it.
inline void load_and_run(Program program, runtime::WeightSource weights, bool sound) {
  if (count_steps(program) > kMaxSteps || program.buffers.size() > 1024) return;
  static const std::vector<const runtime::Executor*> table = exec::table();
  runtime::EngineOptions options;
  options.executors = table;
  options.machine = {device::this_cpu().isas, exec::libraries()};
  options.memory_bytes = kMaxBytes;
  options.max_iterations = kMaxIterations;
  options.steps_left = std::make_shared<std::atomic<int64_t>>(4 * kMaxSteps);
  auto engine = runtime::Engine::create(std::move(program), std::move(weights), options);
  if (!engine.ok()) {
    if (sound && engine.error().kind != ErrorKind::kMemory)  // a model may need more than there is
      stop_at_fault(internal_error("what was built does not load: %s", engine.error().text().c_str()));
    return stop_at_fault(engine.error());
  }
  auto session = runtime::Session::create(*engine, 1);
  if (!session.ok()) return stop_at_fault(session.error());
  for (const int64_t dim : {3, 1}) run(*engine, session->get(), dim, sound);
}

}  // namespace peri::fuzz
