// Cases of a suite folder: built, run, compared.
#include "judge/suite.hpp"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/fault.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/thread_pool.hpp"
#include "exec/region/region_payload.hpp"
#include "judge/difference.hpp"
#include "kernels/entry.hpp"
#include "onnx/import.hpp"
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

// Bytes of host buffers that the next run would read as NaN.
int64_t poisoned_bytes(runtime::Session& session) {
  int64_t out = 0;
  const plan::Program& program = session.engine().program();
  for (size_t k = 0; k < program.buffers.size(); ++k) {
    const plan::Buffer& b = program.buffers[k];
    if (b.weight >= 0 || b.device != plan::kHost || b.dtype == DType::kString) continue;
    const auto memory = session.memory_of(static_cast<int32_t>(k));
    if (memory.ok()) out += std::count(memory->begin(), memory->end(), std::byte{0xff});
  }
  return out;
}

Status run_set(runtime::Session& session, const fs::path& set, SuiteMemory memory, const Tolerance* tolerance,
               CaseResult* result) {
  const plan::Program& program = session.engine().program();
  PERI_ASSIGN(const std::vector<Tensor> inputs, set_inputs(set, program));
  if (memory != SuiteMemory::kPlanned) {
    if (memory == SuiteMemory::kSeparate) session.place(runtime::Session::Placement::kSeparate);
    std::vector<std::vector<int64_t>> dims;
    for (const Tensor& t : inputs) dims.push_back(t.dims());
    PERI_TRY(session.prepare(dims));
    session.poison();
    result->poisoned_bytes += poisoned_bytes(session);
  }
  PERI_ASSIGN(const std::vector<Tensor> outputs, session.run(inputs));
  result->arena_bytes += session.arena_bytes();
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

// Of the kernel of the step's first variant, where it names one that changes more than a layout.
void count_provider(const plan::Step& step, std::map<std::string, int64_t>* providers) {
  const auto payload = exec::read_payload(step.variants[0].payload);
  if (!payload.ok() || (payload->graph.nodes.size() == 1 && ops::changes_layout(*payload->graph.nodes[0]))) return;
  const kernels::Kernel* const kernel = kernels::find(payload->kernel);
  if (kernel) ++(*providers)[std::string(kernel->provider)];
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
  for (const plan::Step& s : steps) {
    result->reference_steps += s.executor == "reference";
    result->host_steps += s.device == plan::kHost;
    ++result->executors[s.executor];
    if (s.bodies.empty()) count_provider(s, &result->providers);
  }
  result->threads = engine->options().threads;
  PERI_ASSIGN(const auto session, runtime::Session::create(engine));
  for (const fs::path& set : sets) PERI_TRY(run_set(*session, set, terms.memory, tolerance, result));
  return Ok{};
}
}  // namespace

namespace {
CaseResult result_of(const fs::path& folder, const SuiteTerms& terms,
                     const std::map<std::string, Tolerance>& tolerances) {
  CaseResult r;
  r.name = folder.filename().string();
  if (const auto model = onnx::survey_model((folder / "model.onnx").string()); model.ok())
    for (const onnx::OpUse& use : model->ops)
      r.operators.push_back((use.domain.empty() ? "" : use.domain + ".") + use.op);
  const auto it = tolerances.find(r.name);
  const Status s =
      contained([&] { return run_case(folder, terms, it == tolerances.end() ? nullptr : &it->second, &r); });
  if (!s.ok()) {
    r.verdict = s.error().kind == ErrorKind::kUnsupported ? Verdict::kUnsupported : Verdict::kFailed;
    r.why = s.error().text();
  }
  return r;
}
}  // namespace

Result<std::vector<CaseResult>> run_suite(const std::string& dir, const SuiteTerms& terms) {
  const std::map<std::string, Tolerance> tolerances = index_tolerances(dir);
  std::vector<fs::path> cases;
  if (std::error_code none; !fs::is_directory(dir, none))
    return usage(none || !fs::exists(dir, none) ? "there is no such folder" : "not a folder").in_file(dir);
  for (const fs::path& folder : folders(dir, ""))
    if (folder.filename().string().find(terms.filter) != std::string::npos && fs::exists(folder / "model.onnx"))
      cases.push_back(folder);
  const auto threads = static_cast<size_t>(std::max(terms.at_once, 1));
  const size_t share = threads == 1 ? 1 : 8 * threads;  // some take much longer than others
  ThreadPool pool(static_cast<int>(threads));
  std::vector<CaseResult> out;
  while (out.size() < cases.size()) {
    const size_t first = out.size();
    out.resize(std::min(cases.size(), first + share));
    std::vector<char> done(out.size() - first, false);
    const auto stopped = [&] { return terms.stop && terms.stop(); };
    pool.run(static_cast<int64_t>(done.size()), [&](int64_t k, int) {
      const size_t at = first + static_cast<size_t>(k);
      if (k > 0 && stopped()) return;
      out[at] = result_of(cases[at], terms, tolerances);
      done[static_cast<size_t>(k)] = true;
    });
    for (size_t k = first; terms.each && k < out.size(); ++k)
      if (done[k - first]) terms.each(out[k]);
    if (stopped())
      return Error(ErrorKind::kCancelled,
                   format("interrupted after %zu cases",
                          first + static_cast<size_t>(std::count(done.begin(), done.end(), true))));
  }
  if (out.empty())
    return usage("no case with a model.onnx%s",
                 terms.filter.empty() ? "" : (" whose name holds '" + terms.filter + "'").c_str())
        .in_file(dir);
  return out;
}

}  // namespace peri::judge
