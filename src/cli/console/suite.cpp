// Cases of a suite folder: built, run, compared.
#include "cli/console/suite.hpp"

#include <algorithm>
#include <filesystem>

#include "cli/console/page.hpp"
#include "onnx/tensor_file.hpp"

namespace peri::cli {

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

// Inputs in the program's order: by the name in the file, else by the file's number.
Result<std::vector<Tensor>> set_inputs(const fs::path& set, const plan::Program& program) {
  std::vector<onnx::NamedTensor> files;
  for (size_t k = 0; fs::exists(set / ("input_" + std::to_string(k) + ".pb")); ++k) {
    PERI_ASSIGN(onnx::NamedTensor t, onnx::read_tensor_file((set / ("input_" + std::to_string(k) + ".pb")).string()));
    files.push_back(std::move(t));
  }
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

Status run_case(const fs::path& dir, SuiteMemory memory, compile::Options build, const Tolerance* tolerance,
                CaseResult* result) {
  build.model = (dir / "model.onnx").string();
  PERI_ASSIGN(compile::Compiled compiled, compile::compile(build));
  result->steps = static_cast<int64_t>(compiled.steps.size());
  for (const auto& s : compiled.steps) result->reference_steps += s.chosen == "reference";
  PERI_ASSIGN(const auto engine, assemble(&compiled, build.tune.threads));
  PERI_ASSIGN(const auto session, runtime::Session::create(engine));
  const std::vector<fs::path> sets = folders(dir, "test_data_set_");
  if (sets.empty()) return invalid("no test_data_set_*").in_file(dir.string());
  for (const fs::path& set : sets) PERI_TRY(run_set(*session, set, memory, tolerance));
  return Ok{};
}
}  // namespace

Result<std::vector<CaseResult>> run_suite(const std::string& dir, const std::string& filter, SuiteMemory memory,
                                          const compile::Options& build,
                                          const std::function<void(const CaseResult&)>& each) {
  const std::map<std::string, Tolerance> tolerances = index_tolerances(dir);
  std::vector<CaseResult> out;
  for (const fs::path& folder : folders(dir, "")) {
    CaseResult r;
    r.name = folder.filename().string();
    if (r.name.find(filter) == std::string::npos || !fs::exists(folder / "model.onnx")) continue;
    auto it = tolerances.find(r.name);
    const Status s = run_case(folder, memory, build, it == tolerances.end() ? nullptr : &it->second, &r);
    if (!s.ok()) {
      r.verdict = s.error().kind == ErrorKind::kUnsupported ? Verdict::kUnsupported : Verdict::kFailed;
      r.why = s.error().text();
    }
    each(r);
    out.push_back(std::move(r));
    if (interrupted()) return Error(ErrorKind::kCancelled, format("interrupted after %zu cases", out.size()));
  }
  if (out.empty())
    return usage("no case with a model.onnx%s", filter.empty() ? "" : (" whose name holds '" + filter + "'").c_str())
        .in_file(dir);
  return out;
}

namespace {
Result<SuiteMemory> memory_of(const Arguments& arguments) {
  const std::string how = arguments.get("--memory", "planned");
  if (how == "planned") return SuiteMemory::kPlanned;
  if (how == "poisoned") return SuiteMemory::kPoisoned;
  if (how == "separate") return SuiteMemory::kSeparate;
  return usage("--memory is no way to place buffers").expecting("planned, poisoned or separate").but_found(how);
}
}  // namespace

Result<Outcome> verify_suite(const Arguments& arguments, const std::string& dir) {
  Progress progress(arguments.has("--quiet"));
  PERI_ASSIGN(compile::Options options, build_options(arguments, "", nullptr));
  options.tune.worker.clear();   // all of it in one process
  options.tune.measure = false;  // verification stays: a candidate that is wrong here gives way, as in a real build
  PERI_ASSIGN(const SuiteMemory memory, memory_of(arguments));
  const Page page(arguments);
  int64_t count[3] = {}, seen = 0, reference = 0;
  auto each = [&](const CaseResult& r) {
    static constexpr const char* kNames[] = {"passed", "FAILED", "unsupported"};
    ++count[static_cast<int>(r.verdict)];
    reference += r.steps > 0 && r.reference_steps == r.steps;
    progress.show(0, 0, std::to_string(++seen) + " cases, " + r.name);
    if (r.verdict == Verdict::kPassed) return;
    progress.clear();
    page.line("%-11s %s: %s", kNames[static_cast<int>(r.verdict)], r.name.c_str(), r.why.c_str());
  };
  PERI_ASSIGN(const std::vector<CaseResult> cases, run_suite(dir, arguments.get("--filter"), memory, options, each));
  progress.clear();
  page.line("%zu cases: %lld passed, %lld failed, %lld unsupported; %lld of them wholly on the reference executor",
            cases.size(), static_cast<long long>(count[0]), static_cast<long long>(count[1]),
            static_cast<long long>(count[2]), static_cast<long long>(reference));
  Outcome out;
  JsonWriter w;
  w.begin_object()
      .field("suite", dir)
      .field("cases", static_cast<int64_t>(cases.size()))
      .field("passed", count[0])
      .field("failed", count[1])
      .field("unsupported", count[2])
      .field("wholly_reference", reference);
  w.key("not_passed").begin_array();
  for (const CaseResult& r : cases)
    if (r.verdict != Verdict::kPassed)
      w.begin_object()
          .field("case", r.name)
          .field("verdict", r.verdict == Verdict::kFailed ? "failed" : "unsupported")
          .field("why", r.why)
          .end_object();
  w.end_array().end_object();
  out.json = w.take();
  PERI_ASSIGN(const double least, arguments.real("--min-passed", 0, 1e9, 0));
  out.code = count[1] || static_cast<double>(count[0]) < least ? 3 : 0;
  out.summary = std::to_string(cases.size()) + " cases: " + std::to_string(count[0]) + " passed, " +
                std::to_string(count[1]) + " failed, " + std::to_string(count[2]) + " unsupported";
  return out;
}

}  // namespace peri::cli
