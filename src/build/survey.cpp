// The importers' reports and a trial lowering.
#include "build/survey.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/json.hpp"
#include "build/on_reference.hpp"
#include "build/proof.hpp"
#include "compile/other_files.hpp"
#include "compile/own_names.hpp"
#include "compile/pinned.hpp"
#include "hf/import.hpp"
#include "judge/index_limit.hpp"
#include "judge/sizes.hpp"
#include "lower/region.hpp"
#include "ops/entry.hpp"
#include "plan/memory.hpp"
#include "text/pipeline.hpp"

namespace peri::build {

namespace {
constexpr int64_t kMaxTried = 50000;  // nodes of a model that is lowered for its estimates
constexpr const char* kFolderKind = "hugging face folder";

void add_symbols(Survey* f) {
  for (const onnx::PortInfo& p : f->inputs)
    for (size_t axis = 0; p.type.shape && axis < p.type.rank(); ++axis)
      if ((*p.type.shape)[axis].is_symbol())
        f->symbols[(*p.type.shape)[axis].symbol_name()].push_back(p.name + "." + std::to_string(axis));
}

Result<Survey> read_onnx(const Request& request, const std::string& file) {
  Survey f;
  PERI_ASSIGN(const compile::Options options, options_of(request));
  PERI_ASSIGN(onnx::ImportReport r, onnx::survey_model(file, compile::declared_with({options.dims, options.at_hand})));
  f.kind = "onnx";
  f.file_bytes = r.file_bytes;
  f.inputs = std::move(r.inputs);
  std::erase_if(f.inputs, [&](const onnx::PortInfo& p) { return request.fixed.contains(p.name); });
  f.outputs = std::move(r.outputs);
  f.ops = std::move(r.ops);
  f.nodes = r.node_count;
  f.weights = r.weight_count;
  f.notes = std::move(r.notes);
  f.origin = "IR " + std::to_string(r.ir_version);
  for (const auto& [domain, version] : r.opsets)
    f.origin += ", opset " + (domain.empty() ? "" : domain + " ") + std::to_string(version);
  if (!r.producer.empty())
    f.origin += ", by " + r.producer + (r.producer_version.empty() ? "" : " " + r.producer_version);
  return f;
}

Result<Survey> read_folder(const Request& request, hf::Folder folder) {
  if (!folder.onnx.empty()) {
    PERI_ASSIGN(Survey f, read_onnx(request, folder.onnx));
    f.kind = kFolderKind;
    f.origin = folder.model_type + ", in " + folder.onnx + " (" + f.origin + ")";
    return f;
  }
  Survey f;
  PERI_ASSIGN(hf::ImportedFolder m, hf::import_weights(std::move(folder)));
  f.kind = kFolderKind;
  f.origin = m.folder.model_type;
  if (m.folder.pooling != hf::Pooling::kNone)
    f.origin += ", pooling " + std::string(hf::pooling_name(m.folder.pooling));
  for (const ir::Value* v : m.graph.inputs) f.inputs.push_back({v->name, v->type});
  for (size_t k = 0; k < m.graph.outputs.size(); ++k)
    f.outputs.push_back({m.graph.output_names[k], m.graph.outputs[k]->type});
  std::map<std::string, int64_t> count;
  for (const ir::Node* n : m.graph.nodes) ++count[n->op];
  for (const auto& [op, n] : count) {
    onnx::OpUse use;
    use.op = op;
    use.count = n;
    use.supported = true;
    f.ops.push_back(std::move(use));
  }
  f.nodes = static_cast<int64_t>(m.graph.nodes.size());
  f.notes = std::move(m.notes);
  return f;
}

Result<Survey> read(const Request& request) {
  const std::string& path = request.model;
  const auto read_any = [&]() -> Result<Survey> {
    if (hf::is_folder(path)) {
      PERI_ASSIGN(hf::Folder folder, hf::read_folder(path));
      return read_folder(request, std::move(folder));
    }
    if (std::optional<Error> other = compile::other_file(path)) return std::move(*other);
    return read_onnx(request, path);
  };
  PERI_ASSIGN(Survey f, read_any());
  f.path = path;
  return f;
}

// Seconds of one candidate: its runs that are checked, and those that are timed, as many as there is time for but some.
double trial_seconds(const tune::RegionWork& work, double rate) {
  constexpr double kBytes = 20e9, kCheckedBytes = 0.8e9, kStart = 0.01;  // a second
  constexpr double kCheckedRuns = 3, kTimedRuns = 20, kFewRuns = 5, kBudget = 0.06;
  const double run = std::max(work.flops / rate, work.bytes / kBytes);
  return kStart + kCheckedRuns * run + std::max(std::min(kTimedRuns * run, kBudget), kFewRuns * run) +
         work.bytes / kCheckedBytes;
}

// The time of a build without import and passes, from the arithmetic and the bytes of its steps: the reference for the
// whole engine twice, for each problem once, a candidate's own runs, and those of the whole engine. The rates were
// accurate to a factor of two for ten models from 2 Mflop to 300 Gflop on a busy machine of two CPUs.
// `budget`: of tuning; 0: none.
double work_seconds(const compile::Compiled& compiled, int threads, bool measures, bool verifies, double budget) {
  constexpr double kStart = 0.3, kReferenceRate = 0.7e9, kMaxReference = 3e7, kMaxWhole = 1e9, kWholeRuns = 15;
  // A step on the reference runs as such: in both runs at each of three sizes, and to be timed. Two einsums of 0.5 and
  // 0.8 Gflop, 29 s each, ran at 0.16 and 0.46 Gflop a second.
  constexpr double kByReferenceRate = 0.3e9, kRunsToJudge = 10, kRunsToTime = 2;
  const double rate = 100e9 * threads;
  std::map<std::string, std::pair<double, double>> problems;  // seconds of the reference, and of one candidate
  double whole = 0, judged = 0, once = 0, candidate = 0, by_reference = 0;
  for (const lower::StepReport* s : lower::all_reports(compiled.steps)) {
    const double reference = std::min(s->work.flops, kMaxReference) / kReferenceRate;
    whole += s->work.flops;
    by_reference += s->chosen == "reference" ? s->work.flops / kByReferenceRate : 0;
    judged += reference;
    problems[s->key] = {reference, trial_seconds(s->work, rate)};
  }
  for (const auto& [key, seconds] : problems) {
    once += seconds.first;
    candidate += seconds.second / static_cast<double>(problems.size());
  }
  judged += whole <= kMaxWhole ? whole / kReferenceRate : 0;
  const auto candidates = static_cast<double>(compiled.tuned.candidates);
  const double tuning = (verifies ? once : 0) + (measures || verifies ? candidates * candidate : 0);
  return kStart + by_reference * (kRunsToTime + (verifies ? kRunsToJudge : 0)) + (verifies ? 2 * judged : 0) +
         (measures ? kWholeRuns * whole / rate : 0) + (budget > 0 ? std::min(budget, tuning) : tuning);
}

// Constants that are no weights of the engine, since the steps that read them hold them, are parameters all the same; a
// number alone, such as an epsilon, is none, nor are sizes and indices (i64).
void add_held(const ir::Graph& graph, Survey* f) {
  const auto is_weight_of = [](const ir::Node* n, const ir::Value* v) {
    for (size_t port = 0; port < n->inputs.size(); ++port)
      if (n->inputs[port] == v && ops::is_factor(*n, port)) return true;
    return false;
  };
  for (const ir::Value* v : graph.constants()) {
    const Tensor& t = *v->constant;
    const bool weighs = is_float(t.dtype()) || (is_integer(t.dtype()) && t.dtype() != DType::kI64);
    if (!weighs || v->users.empty() || t.dims().empty() || t.numel() > lower::kMaxInlineElements) continue;
    if (std::any_of(v->users.begin(), v->users.end(), [&](const ir::Node* n) { return is_weight_of(n, v); })) continue;
    f->parameters += t.numel();
    f->weight_bytes += static_cast<int64_t>(t.bytes().size());
  }
}

// The dimensions that the import found may be 0 are written as an engine's are: `past?`.
void mark_from_zero(const std::vector<plan::Port>& inputs, Survey* f) {
  std::map<std::string, Dim, std::less<>> from_zero;
  for (const plan::Port& port : inputs)
    for (const Dim& d : port.shape)
      if (d.is_symbol() && !provably_at_least(d, 1)) from_zero.emplace(d.symbol_name(), d);
  for (auto* const ports : {&f->inputs, &f->outputs})
    for (onnx::PortInfo& port : *ports)
      if (port.type.shape)
        for (Dim& d : *port.type.shape) d = d.substitute(from_zero);
}

// Dimensions that a node requires to be equal are one, as in an engine.
void join_same(const std::vector<plan::Section>& sections, Survey* f) {
  std::map<std::string, Dim, std::less<>> same;
  for (const auto& [name, axes] : f->symbols)
    if (const std::string own = compile::own_name(sections, name); own != name) same.emplace(name, Dim::symbol(own));
  if (same.empty()) return;
  for (auto* const ports : {&f->inputs, &f->outputs})
    for (onnx::PortInfo& port : *ports)
      if (port.type.shape)
        for (Dim& d : *port.type.shape) d = d.substitute(same);
  f->symbols.clear();
  add_symbols(f);
}

// Outputs of which the model declares no tensor, such as maps of scores or a sequence, are those that the graph makes;
// a folder's pooling adds one.
void take_outputs(const std::vector<plan::Port>& outputs, Survey* f) {
  if (f->kind != kFolderKind && std::none_of(f->outputs.begin(), f->outputs.end(),
                                             [](const onnx::PortInfo& p) { return p.type.dtype == DType::kInvalid; }))
    return;
  f->outputs.clear();
  for (const plan::Port& port : outputs) f->outputs.push_back({port.name, {port.dtype, port.shape}});
}

// Import, passes and a cover by first offers: everything but measuring. Its sizes are exact, the build time is an
// estimate.
Status try_lowering(const Request& request, Survey* f) {
  PERI_ASSIGN(compile::Options options, options_of(request));
  const bool measures = options.tune.measure, verifies = options.tune.verify;
  const int threads = options.tune.threads;
  options.tune.measure = options.tune.verify = false;
  PERI_ASSIGN(const auto compilation, compile::Compilation::start(std::move(options)));
  const DimBinding& sizes_given = compilation->tuned_for();
  PERI_TRY(judge::check_places(compilation->graph(), sizes_given, compilation->bounds()));
  auto compiled = compilation->lower();
  if (!compiled.ok()) return std::move(compiled).error();
  PERI_TRY(plan::check_program(compiled->program, UINT64_MAX));  // as each load of the engine does
  f->lowered = true;
  for (const std::string& note : compilation->notes())
    if (std::find(f->notes.begin(), f->notes.end(), note) == f->notes.end()) f->notes.push_back(note);
  if (f->kind == kFolderKind)
    f->origin += compiled->program.section(text::kTokenizerSection) ? ", with its tokenizer" : ", no tokenizer";
  take_outputs(compiled->program.outputs, f);
  join_same(compiled->program.sections, f);
  mark_from_zero(compiled->program.inputs, f);
  add_held(compilation->graph(), f);
  std::set<uint64_t> seen;
  for (const Tensor& t : compiled->weights) {
    f->parameters += t.numel();
    if (seen.insert(t.content_hash()).second) f->weight_bytes += static_cast<int64_t>(t.bytes().size());
  }
  f->weights = std::max<int64_t>(f->weights, static_cast<int64_t>(compiled->weights.size()));
  for (const auto& [name, value] : compiled->program.tuned_for) f->dims[name] = value;
  DimBinding sizes = f->dims;  // and what the data decide, as assumed
  sizes.insert(compiled->program.assumed.begin(), compiled->program.assumed.end());
  PERI_ASSIGN(const plan::ArenaPlan arena, plan::plan_arena(compiled->program, sizes));
  f->arena_bytes = arena.arena_bytes;
  for (const int64_t bytes : arena.device_bytes) f->arena_bytes += bytes;
  if (const auto limit = judge::index_limit(compilation->graph(), f->dims, judge::Places::kOfInputs))
    f->notes.push_back(limit->text() + "; a run whose inputs go so far ends with an error");
  f->lacks = judge::lacks_memory(compilation->graph(), f->dims);  // as a build says it
  if (f->lacks.empty()) f->lacks = judge::lacks_memory(compiled->program, f->dims, false);
  f->device_memory = plan::memory_lines(compiled->program, f->dims);
  f->problems = compiled->tuned.problems;
  f->candidates = compiled->tuned.candidates;
  f->steps = static_cast<int64_t>(compiled->program.steps.size());
  f->body_steps = body_steps(*compiled);
  const OnReference of = on_reference(*compiled);
  f->slow_steps = std::ssize(of.slow);
  if (f->slow_steps > 0) f->slow_text = slow_steps_text(compiled->program);
  f->reference_steps = f->slow_steps + std::ssize(of.quick);
  f->prepare_seconds = compiled->import_seconds + compiled->passes_seconds + compiled->tune_seconds;
  if (compiled->program.devices.size() < 2)
    f->build_memory = memory_of_build(*compilation, *compiled, measures || verifies, verifies, threads);
  f->build_seconds = f->prepare_seconds + work_seconds(*compiled, threads, measures, verifies, request.budget);
  return Ok{};
}

void write_ports(JsonWriter& w, std::string_view key, const std::vector<onnx::PortInfo>& ports) {
  w.key(key).begin_array();
  for (const auto& p : ports) w.begin_object().field("name", p.name).field("type", ir::type_text(p.type)).end_object();
  w.end_array();
}

// Sizes that nobody gave are no reason to say nothing of the model.
bool is_at_guessed_sizes(const Request& request) {
  return request.dims.empty() && request.at_hand.empty() && request.min_dims.empty() && request.max_dims.empty();
}

}  // namespace

int64_t Survey::unsupported_kinds() const {
  return std::count_if(ops.begin(), ops.end(), [](const onnx::OpUse& u) { return !u.supported; });
}

int64_t Survey::unsupported_nodes() const {
  int64_t nodes = 0;
  for (const onnx::OpUse& u : ops) nodes += u.supported ? 0 : u.count;
  return nodes;
}

Result<Survey> survey(const Request& request) {
  PERI_ASSIGN(Survey f, read(request));
  add_symbols(&f);
  if (f.unsupported_kinds()) return f;
  if (f.nodes > kMaxTried) {
    f.notes.push_back(format("more than %lld nodes: memory and build time are not estimated; build it to see",
                             static_cast<long long>(kMaxTried)));
    return f;
  }
  if (Status lowered = try_lowering(request, &f); !lowered.ok()) {
    if (lowered.error().remedy != compile::kOtherSizes || !is_at_guessed_sizes(request))
      return std::move(lowered).error().in_file(request.model);
    f.notes.push_back("memory and build time are not estimated, and a build is refused, at sizes that nobody gave: " +
                      lowered.error().text());
  }
  return f;
}

std::string survey_json(const Survey& f) {
  JsonWriter w;
  w.begin_object()
      .field("model", f.path)
      .field("kind", f.kind)
      .field("about", f.origin)
      .field("runs", f.unsupported_kinds() == 0 && f.lowered);
  write_ports(w, "inputs", f.inputs);
  write_ports(w, "outputs", f.outputs);
  w.key("symbols").begin_object();
  for (const auto& [name, axes] : f.symbols) {
    w.key(name).begin_array();
    for (const std::string& a : axes) w.value(a);
    w.end_array();
  }
  w.end_object().field("nodes", f.nodes).key("operators").begin_array();
  for (const onnx::OpUse& u : f.ops) {
    w.begin_object()
        .field("op", u.op)
        .field("domain", u.domain)
        .field("opset", u.opset)
        .field("count", u.count)
        .field("supported", u.supported);
    if (!u.supported) {
      w.field("reason", u.reason).field("remedy", u.remedy).key("nodes").begin_array();
      for (const std::string& n : u.nodes) w.value(n);
      w.end_array();
    }
    w.end_object();
  }
  w.end_array().field("file_bytes", f.file_bytes).field("weights", f.weights);
  if (f.lowered) {
    w.field("parameters", f.parameters).key("at_dims").begin_object();
    for (const auto& [name, value] : f.dims) w.field(name, value);
    w.end_object()
        .field("weight_bytes", f.weight_bytes)
        .field("arena_bytes", f.arena_bytes)
        .field("memory_bytes", f.weight_bytes + f.arena_bytes);
    if (!f.lacks.empty()) w.field("lacks", f.lacks);
    w.key("device_memory").begin_array();
    for (const std::string& line : f.device_memory) w.value(line);
    w.end_array();
    w.field("steps", f.steps).field("steps_in_bodies", f.body_steps);
    w.field("reference_steps", f.reference_steps).field("slow_steps", f.slow_steps);
    w.key("build_estimate")
        .begin_object()
        .field("seconds", f.build_seconds)
        .field("problems", f.problems)
        .field("candidates", f.candidates);
    if (f.build_memory.peak() > 0)
      w.field("peak_bytes", static_cast<int64_t>(f.build_memory.peak()))
          .field("first_peak_bytes", static_cast<int64_t>(f.build_memory.first))
          .field("trying_bytes", static_cast<int64_t>(f.build_memory.trying))
          .field("judging_bytes", static_cast<int64_t>(f.build_memory.judging));
    w.field("basis",
            "import, passes and cover as just measured; the float64 reference of each distinct problem once and of the "
            "whole engine twice, each candidate's runs, and those of the whole engine, by the arithmetic and bytes of "
            "the steps; parts of chains that are tried by themselves come on top")
        .end_object();
  }
  w.key("notes").begin_array();
  for (const std::string& n : f.notes) w.value(n);
  w.end_array().end_object();
  return w.take();
}

}  // namespace peri::build
