// Judging steps one by one on their own inputs.
#include "cli/core/bisect.hpp"

#include "exec/core/region_payload.hpp"
#include "tune/trial.hpp"

namespace peri::cli {

namespace {
// Row-major contents of a buffer that a step reads or writes, as the region's value `v` calls it.
// Outputs left the session with the run.
Result<Tensor> contents(const runtime::Session& session, std::span<const Tensor> outputs, int32_t buffer,
                        const ir::Value& v, const DimBinding& binding) {
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

constexpr int64_t kMostElements = int64_t{1} << 27;  // of all values kept in float64 at once, radii besides: 2 GiB

using Values = std::map<std::string, ops::RefTensor, std::less<>>;

// The source's values that steps write, by name; none if they are too many to keep.
Result<Values> source_values(const ir::Graph& source, const plan::Program& program, const DimBinding& binding,
                             std::span<const Tensor> inputs, int threads) {
  ir::Graph g = source.clone();
  std::vector<std::string> names;
  int64_t elements = 0;
  g.outputs.clear();
  g.output_names.clear();
  for (const plan::Step& s : program.steps)
    for (int32_t b : s.writes) {
      if (b < 0) continue;
      ir::Value* v = g.find(program.buffers[static_cast<size_t>(b)].name);
      if (!v || v->constant || v->is_input || g.is_output(v) || !v->type.known() || !is_float(v->type.dtype)) continue;
      auto dims = eval(*v->type.shape, binding);
      if (!dims.ok()) continue;
      PERI_ASSIGN(const int64_t n, checked_numel(*dims));
      if ((elements += n) > kMostElements) return Values();
      g.mark_output(v, v->name);
      names.push_back(v->name);
    }
  if (names.empty()) return Values();
  std::vector<ops::RefTensor> in;
  for (const Tensor& t : inputs) in.push_back(ops::to_ref(t));
  PERI_ASSIGN(auto out, ops::run_reference(g, in, {unit_roundoff(DType::kF32), threads, false, {}}));
  Values values;
  for (size_t k = 0; k < out.size(); ++k) values.emplace(names[k], std::move(out[k]));
  return values;
}

Status judge(const runtime::Session& session, const Values& source, std::span<const Tensor> outputs,
             const plan::Step& step, const DimBinding& binding, StepVerdict* verdict) {
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
    return Ok{};
  }
  for (size_t k = 0; k < out.size(); ++k) {
    const auto it = source.find(session.engine().program().buffers[static_cast<size_t>(step.writes[k])].name);
    if (it == source.end() || it->second.dims != out[k].dims() || it->second.dtype != out[k].dtype()) continue;
    tune::Expected wanted;
    wanted.out.push_back(it->second);
    auto far = tune::compare(wanted, {&out[k], 1});
    if (!far.ok())
      verdict->why =
          "it does what its region says, but not what the source says of '" + it->first + "': " + far.error().text();
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

Result<std::vector<StepVerdict>> bisect(std::shared_ptr<const runtime::Engine> engine, const ir::Graph* source,
                                        std::span<const Tensor> inputs, Progress* progress) {
  PERI_ASSIGN(const auto session, runtime::Session::create(engine));
  session->keep_intermediates(true);
  PERI_ASSIGN(const std::vector<Tensor> outputs, session->run(inputs));
  const plan::Program& program = engine->program();
  std::vector<std::vector<int64_t>> dims;
  for (const Tensor& t : inputs) dims.push_back(t.dims());
  PERI_ASSIGN(const DimBinding binding, plan::bind_dims(program, dims));
  Values values;
  if (source) {
    if (progress) progress->show(0, 0, "the source's values in float64");
    PERI_ASSIGN(values, source_values(*source, program, binding, inputs, engine->options().threads));
  }
  std::vector<StepVerdict> out;
  for (size_t k = 0; k < program.steps.size(); ++k) {
    if (progress) progress->show(k, program.steps.size(), program.steps[k].name);
    StepVerdict v;
    v.step = k;
    v.name = program.steps[k].name;
    const Status s = judge(*session, values, outputs, program.steps[k], binding, &v);
    if (!s.ok()) v.why = "cannot be judged: " + s.error().text(), v.checked = false;
    out.push_back(v);
    if (v.checked && !v.why.empty()) break;
  }
  return out;
}

}  // namespace peri::cli
