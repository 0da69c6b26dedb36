// The memory plan is the one that a session makes for the same dims.
#include "build/servable_checks.hpp"

#include "build/batch_check.hpp"
#include "build/open.hpp"
#include "judge/seeded.hpp"

namespace peri::build {

constexpr size_t kMaxCanaryBytes = size_t{16} << 20;  // question and answer stay in memory while the model is served
constexpr uint64_t kCanarySeed = 20;                  // arbitrary

int64_t planned_bytes(const plan::Program& program, int instances, int64_t max_batch) {
  auto dims = program_dims(program, {});
  if (!dims.ok()) return 0;
  if (const auto symbol = batch_symbol(program); symbol.ok() && max_batch > 0) (*dims)[*symbol] = max_batch;
  const auto plan = plan::plan_arena(program, *dims);
  if (!plan.ok()) return 0;
  int64_t weights = 0;
  for (const plan::Weight& w : program.weights) weights += static_cast<int64_t>(w.bytes);
  return weights + instances * plan->arena_bytes;
}

Status check_fits(int64_t bytes, const serve::Ram& ram) {
  if (!ram.known() || bytes <= ram.available_bytes) return Ok{};
  const auto mib = [](int64_t v) { return static_cast<double>(v) / (1 << 20); };
  return Error(ErrorKind::kMemory, "the model does not fit into memory")
      .expecting(format("%.1f MiB for its weights and instances", mib(bytes)))
      .but_found(format("%.1f MiB available of %.1f", mib(ram.available_bytes), mib(ram.total_bytes)))
      .advise("serve it with fewer instances or a smaller max_batch_size, or unload other models");
}

static size_t bytes_of(std::span<const Tensor> tensors) {
  size_t out = 0;
  for (const Tensor& t : tensors) out += t.bytes().size();
  return out;
}

Result<serve::Canary> make_canary(runtime::EngineServable& model) {
  const plan::Program& program = model.engine().program();
  PERI_ASSIGN(DimBinding dims, program_dims(program, {}));
  if (const auto symbol = batch_symbol(program); symbol.ok()) dims[*symbol] = 1;
  PERI_ASSIGN(std::vector<Tensor> inputs, judge::random_inputs(program, dims, kCanarySeed));
  if (inputs.empty()) return unsupported("it has no inputs");
  const auto too_large = [] { return unsupported("question or answer has more than %zu bytes", kMaxCanaryBytes); };
  if (bytes_of(inputs) > kMaxCanaryBytes) return too_large();
  PERI_ASSIGN(std::vector<Tensor> first, model.run(inputs));
  PERI_ASSIGN(const std::vector<Tensor> second, model.run(inputs));
  if (bytes_of(first) > kMaxCanaryBytes) return too_large();
  for (size_t k = 0; k < first.size(); ++k)
    if (!first[k].same_content(second[k])) return unsupported("it answers the same question otherwise each time");
  return serve::Canary{std::move(inputs), std::move(first)};
}

}  // namespace peri::build
