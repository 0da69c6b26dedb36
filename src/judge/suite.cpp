// Cases of a suite folder: built, run, compared.
#include "judge/suite.hpp"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/file.hpp"
#include "base/json.hpp"
#include "judge/difference.hpp"
#include "onnx/tensor_file.hpp"

namespace peri::judge {

namespace {
namespace fs = std::filesystem;

std::vector<fs::path> folders(const fs::path& dir, std::string_view prefix) {
  std::vector<fs::path> out;
  std::error_code failed;
  for (auto it = fs::directory_iterator(dir, failed); !failed && it != fs::directory_iterator(); it.increment(failed))
    if (it->path().filename().string().starts_with(prefix) && it->is_directory(failed)) out.push_back(it->path());
  std::sort(out.begin(), out.end());
  return out;
}

std::map<std::string, Tolerance> index_tolerances(const std::string& dir) {
  std::map<std::string, Tolerance> out;
  auto text = read_file(dir + "/index.json", size_t{64} << 20);
  if (!text.ok()) return out;
  auto json = parse_json(*text);
  if (!json.ok()) return out;
  const Json* cases = json->find("cases");
  if (!cases) return out;
  for (const Json& c : cases->items()) {
    auto name = c.get_string("name", "");
    auto rtol = c.get_double("rtol", 1e-3), atol = c.get_double("atol", 1e-7);
    if (name.ok() && rtol.ok() && atol.ok()) out[std::string(*name)] = {*rtol, *atol};
  }
  return out;
}

// What holds where the index names no tolerance: wider where the type itself is coarser.
Tolerance default_tolerance(DType type) {
  Tolerance t;
  if (is_float(type)) t.rtol = std::max(t.rtol, 4 * unit_roundoff(type));
  return t;
}

Result<std::vector<onnx::NamedTensor>> input_files(const fs::path& set) {
  std::vector<onnx::NamedTensor> files;
  for (size_t k = 0; fs::exists(set / ("input_" + std::to_string(k) + ".pb")); ++k) {
    PERI_ASSIGN(onnx::NamedTensor t, onnx::read_tensor_file((set / ("input_" + std::to_string(k) + ".pb")).string()));
    files.push_back(std::move(t));
  }
  return files;
}

// Inputs in the program's order: by the name in the file, else by the file's number.
Result<std::vector<Tensor>> set_inputs(const fs::path& set, const plan::Program& program) {
  PERI_ASSIGN(const std::vector<onnx::NamedTensor> files, input_files(set));
  std::vector<Tensor> out;
  for (size_t k = 0; k < program.inputs.size(); ++k) {
    auto it = std::find_if(files.begin(), files.end(), [&](const auto& f) { return f.name == program.inputs[k].name; });
    if (it == files.end() && k < files.size()) it = files.begin() + static_cast<std::ptrdiff_t>(k);
    if (it == files.end())
      return invalid("no file for input '%s'", program.inputs[k].name.c_str()).in_file(set.string());
    out.push_back(it->tensor);
  }
  return out;
}

Status run_set(runtime::Session& session, const fs::path& set, SuiteMemory memory, const Tolerance* tolerance) {
  const plan::Program& program = session.engine().program();
  PERI_ASSIGN(const std::vector<Tensor> inputs, set_inputs(set, program));
  if (memory != SuiteMemory::kPlanned) {
    if (memory == SuiteMemory::kSeparate) session.place(runtime::Session::Placement::kSeparate);
    std::vector<std::vector<int64_t>> dims;
    for (const Tensor& t : inputs) dims.push_back(t.dims());
    PERI_TRY(session.prepare(dims));
    session.poison();
  }
  PERI_ASSIGN(const std::vector<Tensor> outputs, session.run(inputs));
  for (size_t k = 0; k < outputs.size(); ++k) {
    const std::string file = (set / ("output_" + std::to_string(k) + ".pb")).string();
    PERI_ASSIGN(const onnx::NamedTensor want, onnx::read_tensor_file(file));
    auto d = difference(want.tensor, outputs[k], tolerance ? *tolerance : default_tolerance(want.tensor.dtype()));
    if (!d.ok()) return std::move(d).error().at_node(program.outputs[k].name);
    if (!d->first.empty())
      return Error(ErrorKind::kAccuracy, format("%s, %.3g %% of its elements outside", d->first.c_str(), 100 * d->l0))
          .at_node(program.outputs[k].name);
  }
  return Ok{};
}

Status run_case(const fs::path& dir, const SuiteTerms& terms, const Tolerance* tolerance, CaseResult* result) {
  const std::vector<fs::path> sets = folders(dir, "test_data_set_");
  if (sets.empty()) return invalid("no test_data_set_*").in_file(dir.string());
  std::vector<compile::InputShape> shapes;  // a set that cannot be read says so when it is run
  if (const auto files = input_files(sets[0]); files.ok())
    for (const onnx::NamedTensor& f : *files) shapes.push_back({f.name, f.tensor.dims()});
  PERI_ASSIGN(const auto engine, terms.build((dir / "model.onnx").string(), shapes));
  const std::vector<plan::Step>& steps = engine->program().steps;
  result->steps = static_cast<int64_t>(steps.size());
  for (const plan::Step& s : steps) result->reference_steps += s.executor == "reference";
  PERI_ASSIGN(const auto session, runtime::Session::create(engine));
  for (const fs::path& set : sets) PERI_TRY(run_set(*session, set, terms.memory, tolerance));
  return Ok{};
}
}  // namespace

Result<std::vector<CaseResult>> run_suite(const std::string& dir, const SuiteTerms& terms) {
  const std::map<std::string, Tolerance> tolerances = index_tolerances(dir);
  std::vector<CaseResult> out;
  for (const fs::path& folder : folders(dir, "")) {
    CaseResult r;
    r.name = folder.filename().string();
    if (r.name.find(terms.filter) == std::string::npos || !fs::exists(folder / "model.onnx")) continue;
    auto it = tolerances.find(r.name);
    const Status s = run_case(folder, terms, it == tolerances.end() ? nullptr : &it->second, &r);
    if (!s.ok()) {
      r.verdict = s.error().kind == ErrorKind::kUnsupported ? Verdict::kUnsupported : Verdict::kFailed;
      r.why = s.error().text();
    }
    if (terms.each) terms.each(r);
    out.push_back(std::move(r));
    if (terms.stop && terms.stop())
      return Error(ErrorKind::kCancelled, format("interrupted after %zu cases", out.size()));
  }
  if (out.empty())
    return usage("no case with a model.onnx%s",
                 terms.filter.empty() ? "" : (" whose name holds '" + terms.filter + "'").c_str())
        .in_file(dir);
  return out;
}

}  // namespace peri::judge
