// The way of the data, top to bottom.
#include "compile/compile.hpp"

#include <algorithm>
#include <set>

#include "base/clock.hpp"
#include "hf/foreign.hpp"
#include "hf/import.hpp"
#include "onnx/import.hpp"
#include "text/pipeline.hpp"

namespace peri::compile {

namespace {
Result<Imported> import_hf(const std::string& folder) {
  Imported out;
  PERI_ASSIGN(hf::ImportedFolder model, hf::import_folder(folder));
  out.graph = std::move(model.graph);
  out.notes = std::move(model.notes);
  out.check_files = [weights = model.weights] { return weights->check(); };
  if (model.tokenizer) {
    out.sections.push_back({std::string(text::kTokenizerSection), std::move(model.folder.tokenizer)});
    out.sections.push_back({std::string(text::kPipelineSection), std::move(model.pipeline)});
  }
  return out;
}
}  // namespace

Result<Imported> import_any(const std::string& model) {
  if (hf::is_folder(model)) return import_hf(model);
  if (std::optional<Error> foreign = hf::foreign_name(model)) return std::move(*foreign).in_file(model);
  Imported out;
  PERI_ASSIGN(onnx::ImportedModel imported, onnx::import_model(model, {}));
  out.graph = std::move(imported.graph);
  out.check_files = [files = std::move(imported.files)]() -> Status {
    for (const auto& file : files) PERI_TRY(file->check());
    return Ok{};
  };
  return out;
}

Result<DimBinding> resolve_dims(const ir::Graph& graph, const std::map<std::string, int64_t>& given) {
  DimBinding binding;
  std::set<std::string> used, batch_like, sequence_like;
  std::string known;
  for (const ir::Value* v : graph.inputs) {
    for (size_t axis = 0; axis < v->type.rank(); ++axis) {
      const Dim& d = (*v->type.shape)[axis];
      if (!d.is_symbol()) continue;
      const std::string name = d.symbol_name();
      if (axis == 0) batch_like.insert(name);
      if (axis == 1 && v->type.rank() == 2 && is_integer(v->type.dtype)) sequence_like.insert(name);
      binding.emplace(name, axis == 0 ? 1 : 128);
      const std::string by_axis = v->name + "." + std::to_string(axis);
      known += (known.empty() ? "" : ", ") + name + " (" + by_axis + ")";
      if (auto it = given.find(by_axis); it != given.end()) binding[name] = it->second, used.insert(by_axis);
    }
  }
  auto assign = [&](const std::string& key, int64_t value) {
    if (binding.contains(key)) return binding[key] = value, true;
    const std::set<std::string>* alias = key == "batch" ? &batch_like : key == "sequence" ? &sequence_like : nullptr;
    if (!alias || alias->size() != 1) return false;
    return binding[*alias->begin()] = value, true;
  };
  for (const auto& [key, value] : given) {
    if (value < 1)
      return usage("dimension '%s' is %lld", key.c_str(), static_cast<long long>(value)).expecting("at least 1");
    if (!used.contains(key) && !assign(key, value))
      return usage("the model has no dimension '%s'", key.c_str())
          .advise(known.empty() ? "all its dimensions are fixed" : "its dimensions are " + known);
  }
  return binding;
}

Result<Compiled> compile(const Options& options) {
  if (options.backend != "auto" && options.backend != "cpu")
    return refused("no backend '%s' in this build", options.backend.c_str()).expecting("cpu");
  Compiled out;
  int64_t start = now_ns();
  if (options.progress) options.progress(0, 0, "import " + options.model);
  PERI_ASSIGN(Imported imported, import_any(options.model));
  out.import_seconds = seconds_since(start);
  start = now_ns();
  PERI_ASSIGN(out.passes, passes::run_pipeline(imported.graph, {options.disabled_passes, options.dump_dir}));
  out.passes_seconds = seconds_since(start);
  PERI_ASSIGN(const DimBinding binding, resolve_dims(imported.graph, options.dims));
  start = now_ns();
  tune::Tuner tuner(options.tune);
  PERI_ASSIGN(auto lowered, backends::cpu::lower(imported.graph, tuner, {binding, options.forced, options.progress}));
  out.tune_seconds = seconds_since(start);
  PERI_TRY(imported.check_files());
  out.notes = std::move(imported.notes);
  out.program = std::move(lowered.program);
  out.weights = std::move(lowered.weights);
  out.steps = std::move(lowered.steps);
  out.predicted_ms = lowered.predicted_ms;
  out.conversion_ms = lowered.conversion_ms;
  out.tuned = tuner.stats();
  out.program.builder = options.builder;
  out.program.sections.push_back({"source", ir::print(imported.graph)});
  for (plan::Section& s : imported.sections) out.program.sections.push_back(std::move(s));
  return out;
}

}  // namespace peri::compile
