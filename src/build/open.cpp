// The one place that gives an engine the executors of this program and the capabilities of this machine.
#include "build/open.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "base/thread_pool.hpp"
#include "build/build.hpp"
#include "compile/own_names.hpp"
#include "device/open.hpp"
#include "exec/ahead.hpp"
#include "exec/entry.hpp"
#include "judge/index_limit.hpp"
#include "judge/source.hpp"
#include "plan/chip.hpp"

namespace peri::build {

runtime::ExecutorTable executors() {
  static const std::vector<const runtime::Executor*> kTable = exec::table();
  return kTable;
}

runtime::EngineOptions run_options(int threads, const runtime::Allocator& allocator, const std::string& device) {
  runtime::EngineOptions o = engine_options(executors(), threads > 0 ? threads : usable_cpus());
  o.allocator = allocator;
  o.device = device;
  return o;
}

runtime::EngineOptions run_options_of(const plan::Program& program, int threads, const std::string& device) {
  const std::string_view kind = device::kind_of(device);
  const auto& own = program.devices;
  const bool has = device::has_numbers(kind) && std::find(own.begin(), own.end(), kind) != own.end();
  return run_options(threads, {}, has ? device : "");
}

bool is_engine(const std::string& path) {
  std::error_code unreadable;
  return std::filesystem::is_regular_file(path, unreadable) && plan::looks_like_engine(path);
}

Result<std::shared_ptr<const runtime::Engine>> engine_of(plan::LoadedEngine loaded, runtime::EngineOptions options) {
  const std::string path = loaded.file->name();
  runtime::WeightSource weights = runtime::mapped_weights(loaded.weight_bytes, loaded.file);
  weights.checked = true;
  if (auto ahead = exec::open_ahead(loaded.program))
    weights.keep = std::make_shared<const std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
        std::move(weights.keep), std::move(ahead));
  auto engine = runtime::Engine::create(std::move(loaded.program), std::move(weights), std::move(options));
  if (!engine.ok()) return std::move(engine).error().in_file(path);
  return engine;
}

Result<std::shared_ptr<const runtime::Engine>> load(const std::string& path, runtime::EngineOptions options, bool check,
                                                    std::shared_ptr<const MappedFile>* file) {
  return load(path, [&](const plan::Program&) { return std::move(options); }, check, file);
}

Result<std::shared_ptr<const runtime::Engine>> load(const std::string& path, const OptionsOf& options, bool check,
                                                    std::shared_ptr<const MappedFile>* file) {
  PERI_ASSIGN(plan::LoadedEngine loaded, plan::load_engine(path));
  if (check) PERI_TRY(plan::check_weights(loaded));
  if (file) *file = loaded.file;
  runtime::EngineOptions own = options(loaded.program);
  return engine_of(std::move(loaded), std::move(own));
}

Result<std::shared_ptr<const runtime::Engine>> assemble(compile::Compiled* compiled, runtime::EngineOptions options) {
  PERI_ASSIGN(auto assembled, plan::assemble_engine(compiled->program, compiled->weights));
  compiled->weights.clear();
  return runtime::Engine::create(std::move(assembled.program), {assembled.weight_bytes, assembled.keep, {}},
                                 std::move(options));
}

std::string interrupted_build(const plan::Program& program) {
  const plan::Section* mark = program.section(kInterruptedSection);
  return mark ? "the build of this engine was " + mark->bytes : "";
}

std::string chip_here(const plan::Program& program, const std::string& device) {
  return program.devices.size() < 2 ? "" : device::chip_at(device::which_of(program.devices[1], device));
}

std::string tuned_elsewhere(const plan::Program& program, const std::string& here) {
  const std::string there = plan::chip_of(program);
  if (there.empty() || here.empty() || there == here) return "";
  return "tuned for " + there + ", and this is " + here +
         ": right, but perhaps not fastest; to tune for it: peri build MODEL -o ENGINE --backend " + program.backend;
}

std::optional<Untuned> untuned(const plan::Program& program, const DimBinding& dims) {
  Untuned out;
  for (const auto& [name, value] : program.tuned_for) {
    const auto it = dims.find(name);
    if (it == dims.end()) continue;  // bound by the data
    out.tuned += (out.tuned.empty() ? "" : ",") + name + "=" + std::to_string(value);
    out.here += (out.here.empty() ? "" : ",") + name + "=" + std::to_string(it->second);
  }
  if (out.tuned == out.here) return std::nullopt;
  return out;
}

namespace {
// Sizes at which a size that is not `fixed` is the sum of two others, as at the tuned ones, and the graph agrees.
std::optional<DimBinding> as_sums(const ir::Graph& graph, const DimBinding& tuned, const DimBinding& sizes,
                                  const std::set<std::string>& fixed) {
  constexpr size_t kMaxNames = 32;  // of which all triples are looked at
  if (sizes.size() > kMaxNames) return std::nullopt;
  for (const auto& [total, size] : sizes)
    for (const auto& [one, first] : sizes)
      for (const auto& [other, second] : sizes) {
        const bool known = tuned.contains(total) && tuned.contains(one) && tuned.contains(other);
        if (!known || fixed.contains(total) || one >= other || one == total || other == total) continue;
        if (size == first + second || tuned.at(total) != tuned.at(one) + tuned.at(other)) continue;
        DimBinding out = sizes;
        out[total] = first + second;
        if (compile::check_possible(graph, out).ok()) return out;
      }
  return std::nullopt;
}

// Sizes that nobody gave follow from those given where the graph's nodes require it: a total of past and what is new.
// kUsage where no such sizes are found and the graph's own shapes contradict each other.
Result<DimBinding> with_following(const plan::Program& program, DimBinding sizes, const DimBinding& given) {
  if (given.empty()) return sizes;
  const std::optional<ir::Graph> graph = judge::source_shapes(program);
  const DimBinding tuned(program.tuned_for.begin(), program.tuned_for.end());
  if (!graph) return sizes;
  DimBinding fitted = sizes;
  Status possible = compile::check_possible(*graph, sizes);
  if (!possible.ok()) {
    std::set<std::string> fixed;
    for (const auto& [name, size] : given) fixed.insert(name);
    const auto sums = as_sums(*graph, tuned, sizes, fixed);
    fitted = sums ? *sums : compile::fitted_dims(*graph, sizes, fixed);
    possible = compile::check_possible(*graph, fitted);
  }
  if (possible.ok()) {
    PERI_TRY(judge::check_places(*graph, fitted));
    return fitted;
  }
  if (!compile::check_possible(*graph, tuned).ok()) return sizes;  // then the run says what is wrong
  return std::move(possible).error();
}
}  // namespace

Result<DimBinding> program_dims(const plan::Program& program, const std::map<std::string, int64_t>& given,
                                const DimBinding& known) {
  std::map<std::string, int64_t> free = given;
  PERI_TRY(compile::to_own_names(program.sections, &free));
  ir::Graph interface_graph;
  for (const plan::Port& p : program.inputs) interface_graph.add_input(p.name, ir::Type(p.dtype, p.shape));
  DimBinding others = known;
  others.insert(program.tuned_for.begin(), program.tuned_for.end());
  PERI_ASSIGN(DimBinding sizes, compile::engine_dims(interface_graph, free, others));
  PERI_ASSIGN(DimBinding fixed, compile::stated_dims(interface_graph, free));
  fixed.insert(known.begin(), known.end());
  return with_following(program, std::move(sizes), fixed);
}

}  // namespace peri::build
