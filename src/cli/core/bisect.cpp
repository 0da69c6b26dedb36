// Judging steps one by one on their own inputs.
#include "cli/core/bisect.hpp"

#include "exec/core/region_payload.hpp"
#include "tune/trial.hpp"

namespace peri::cli {

namespace {
// Row-major contents of a buffer that a step reads or writes, as the region's value `v` calls it.
// Outputs left the session with the run.
Result<Tensor> contents(const runtime::Session& session, std::span<const Tensor> outputs, int32_t buffer, const ir::Value& v, const DimBinding& binding) {
  const plan::Program& program = session.engine().program();
  const plan::Buffer& b = program.buffers[static_cast<size_t>(buffer)];
  for (size_t k = 0; k < outputs.size(); ++k)
    if (program.outputs[k].buffer == buffer) return outputs[k];
  if (b.weight >= 0) return session.engine().weight(static_cast<size_t>(b.weight));
  PERI_ASSIGN(Tensor t, session.buffer_contents(buffer));
  if (v.type.layout.row_major()) return t;
  PERI_ASSIGN(const std::vector<int64_t> dims, eval(*v.type.shape, binding));
  return tune::from_layout(t, v.type.layout, dims);
}

Status judge(const runtime::Session& session, std::span<const Tensor> outputs, const plan::Step& step, const DimBinding& binding, StepVerdict* verdict) {
  if (step.variants.empty() || !step.binds.empty()) return Ok{};
  PERI_ASSIGN(const exec::RegionPayload payload, exec::read_payload(step.variants[0].payload));
  verdict->kernel = payload.kernel;
  PERI_ASSIGN(const ir::Graph region, exec::bind_region(payload.graph, binding));
  std::vector<Tensor> in, out;
  for (size_t k = 0; k < region.inputs.size(); ++k) {
    PERI_ASSIGN(Tensor t, contents(session, outputs, step.reads[k], *payload.graph.inputs[k], binding));
    in.push_back(std::move(t));
  }
  for (size_t k = 0; k < region.outputs.size(); ++k) {
    PERI_ASSIGN(Tensor t, contents(session, outputs, step.writes[k], *payload.graph.outputs[k], binding));
    out.push_back(std::move(t));
  }
  PERI_ASSIGN(const tune::Expected expected, tune::make_expected(region, in, session.engine().options().threads, 7));
  verdict->checked = true;
  auto error = tune::compare(expected, out);
  if (error.ok()) {
    verdict->error = *error;
  } else {
    verdict->why = error.error().text();
  }
  return Ok{};
}

}  // namespace

plan::Program separate_results(plan::Program program) {
  for (const plan::Step& s : program.steps)
    for (int32_t w : s.writes)
      for (int32_t r : s.reads) {
        if (w < 0 || r < 0) continue;
        plan::Buffer& b = program.buffers[static_cast<size_t>(w)];
        if (b.alias_of == r) b.alias_of = -1;
      }
  return program;
}

Result<std::vector<StepVerdict>> bisect(std::shared_ptr<const runtime::Engine> engine, std::span<const Tensor> inputs, Progress* progress) {
  PERI_ASSIGN(const auto session, runtime::Session::create(engine));
  session->keep_intermediates(true);
  PERI_ASSIGN(const std::vector<Tensor> outputs, session->run(inputs));
  const plan::Program& program = engine->program();
  std::vector<std::vector<int64_t>> dims;
  for (const Tensor& t : inputs) dims.push_back(t.dims());
  PERI_ASSIGN(const DimBinding binding, plan::bind_dims(program, dims));
  std::vector<StepVerdict> out;
  for (size_t k = 0; k < program.steps.size(); ++k) {
    if (progress) progress->show(k, program.steps.size(), program.steps[k].name);
    StepVerdict v;
    v.step = k;
    v.name = program.steps[k].name;
    const Status s = judge(*session, outputs, program.steps[k], binding, &v);
    if (!s.ok()) v.why = "cannot be judged: " + s.error().text(), v.checked = false;
    out.push_back(v);
    if (v.checked && !v.why.empty()) break;
  }
  return out;
}

}  // namespace peri::cli
