// Surveys a model: operators counted through functions, versions checked, inputs and outputs described.
#include "onnx/surveyor.hpp"

#include <algorithm>

#include "base/utf8.hpp"
#include "onnx/limits.hpp"
#include "onnx/proto_reader.hpp"
#include "onnx/refusals.hpp"
#include "onnx/scope_check.hpp"

namespace peri::onnx {

namespace {
constexpr int kMaxFunctionDepth = 100;
constexpr size_t kNamesShown = 5;

int64_t add_capped(int64_t a, int64_t b) {
  int64_t c;
  return __builtin_add_overflow(a, b, &c) ? INT64_MAX : c;
}
int64_t mul_capped(int64_t a, int64_t b) {
  int64_t c;
  return __builtin_mul_overflow(a, b, &c) ? INT64_MAX : c;
}
}  // namespace

Error Surveyor::too_many_nodes(int64_t n) const {
  return Error(ErrorKind::kMemory, "the model has too many nodes, functions expanded")
      .expecting(format("at most %lld", static_cast<long long>(options_.max_nodes)))
      .but_found(format("%lld", static_cast<long long>(n)));
}

Status Surveyor::check_model() {
  const ModelRecord& m = s_.model;
  if (!m.graph)
    return invalid("the file holds no graph").expecting("an ONNX model").advise("check that the file is an .onnx file");
  if (m.ir_version <= 0) return invalid("the file has no IR version").expecting("an ONNX model");
  if (m.ir_version > newest_ir_version())
    return unsupported("the file has an IR version that is not known")
        .expecting(format("at most %lld", static_cast<long long>(newest_ir_version())))
        .but_found(format("%lld", static_cast<long long>(m.ir_version)))
        .advise("export it with an older version of onnx");
  if (static_cast<int64_t>(m.graph->nodes.size()) > options_.max_nodes)
    return too_many_nodes(static_cast<int64_t>(m.graph->nodes.size()));
  if (m.opsets.empty())
    return invalid("the model imports no operator set").advise("convert it with onnx.version_converter");
  PERI_TRY(check_opset(m.opsets, "the model"));
  assume_versions();
  return Ok{};
}

// Domains that ONNX Runtime knows are taken at the version that it would take, where the model does not import them.
void Surveyor::assume_versions() {
  constexpr std::pair<const char*, int64_t> kUsual[] = {
      {"", kNewestOpset}, {"ai.onnx.ml", kNewestMlOpset}, {"com.microsoft", 1}};
  for (const auto& [domain, version] : kUsual)
    if (s_.model.opsets.emplace(domain, version).second) assumed_.insert(domain);
}

void Surveyor::note(std::string text) {
  constexpr size_t kMaxNotes = 100;
  if (s_.report.notes.size() < kMaxNotes) s_.report.notes.push_back(std::move(text));
}

Status Surveyor::check_opset(const Opsets& opsets, const char* where) const {
  const auto it = opsets.find("");
  if (it == opsets.end()) return Ok{};
  if (it->second >= kOldestOpset && it->second <= kNewestOpset) return Ok{};
  return unsupported("%s uses an opset that is not supported", where)
      .expecting(format("opset %d to %d", static_cast<int>(kOldestOpset), static_cast<int>(kNewestOpset)))
      .but_found(format("opset %lld", static_cast<long long>(it->second)))
      .advise("convert it with onnx.version_converter");
}

Status Surveyor::read_functions() {
  for (const Body& body : s_.model.functions) {
    PERI_ASSIGN(FunctionRecord record, read_function(body, base_));
    const std::string key = function_key(record.domain, record.name, record.overload);
    if (record.name.empty()) return invalid("a function has no name");
    PERI_TRY(check_opset(record.opsets, ("function " + key).c_str()));
    if (!s_.functions.emplace(key, Function{std::move(record), {}}).second)
      return invalid("function %s is defined twice", key.c_str());
  }
  for (auto& [key, function] : s_.functions) {
    FunctionRecord& r = function.record;
    Opsets opsets = s_.model.opsets;
    for (const auto& [domain, version] : r.opsets) opsets[domain] = version;
    r.opsets = opsets;
    std::set<std::string_view> seen;
    for (std::string_view name : r.inputs)
      if (!seen.insert(name).second) return invalid("function %s has an input twice", key.c_str());
    Tally& tally = tallies_[key];
    ScopeCheck scope{base_, r.nodes, r.inputs, r.outputs, nullptr, 0, [&](const NodeRecord& node, int) {
                       return count_node(node, r.opsets, &tally);
                     }};
    Result<std::vector<uint32_t>> order = check_scope(scope);
    if (!order.ok()) {
      Error e = std::move(order).error();
      e.message += " (in function " + key + ")";
      return e;
    }
    function.order = std::move(order).value();
  }
  return Ok{};
}

Status Surveyor::count_node(const NodeRecord& node, const Opsets& opsets, Tally* tally) {
  ++tally->nodes;
  PERI_TRY(check_node_size(node));
  if (!s_.functions.empty()) {
    const std::string key = function_key(node.domain, node.op, node.overload);
    if (s_.functions.contains(key)) {
      ++tally->calls[key];
      return Ok{};
    }
  }
  if (tally->last && tally->op == node.op && tally->domain == node.domain && tally->last->nodes.size() >= kNamesShown) {
    ++tally->last->count;
    return Ok{};
  }
  const auto version = opsets.find(node.domain);
  if (const auto assumed = assumed_.find(std::string(node.domain));
      assumed != assumed_.end() && version->second == s_.model.opsets.at(*assumed)) {
    note("domain '" + (node.domain.empty() ? "ai.onnx" : *assumed) + "' is not imported and is taken at version " +
         std::to_string(version->second));
    assumed_.erase(assumed);
  }
  Tally::Uses& uses =
      tally->ops[{std::string(node.domain), std::string(node.op), version == opsets.end() ? 0 : version->second}];
  ++uses.count;
  tally->op = node.op;
  tally->domain = node.domain;
  tally->last = &uses;
  if (uses.nodes.size() < kNamesShown) uses.nodes.emplace_back(node.label().substr(0, 200));
  if (node.domain == "ai.onnx.ml" && node.op == "ZipMap") note_maps(node);
  return Ok{};
}

Status Surveyor::scan_graph(Tally* tally) {
  const GraphRecord& g = *s_.model.graph;
  std::vector<std::string_view> given, outputs;
  PERI_TRY(describe_ports(g, &given));
  PERI_TRY(describe_outputs(g, &outputs));
  ScopeCheck scope{base_, g.nodes, std::move(given), std::move(outputs), nullptr, 0, [&](const NodeRecord& node, int) {
                     return count_node(node, s_.model.opsets, tally);
                   }};
  PERI_ASSIGN(s_.order, check_scope(scope));
  return Ok{};
}

// Depth-first over calls; `height` is the longest chain of calls below.
Status Surveyor::visit_function(const std::string& key, std::vector<std::string>* stack, int* height) {
  if (const auto it = heights_.find(key); it != heights_.end()) {
    *height = it->second;
    return Ok{};
  }
  if (std::find(stack->begin(), stack->end(), key) != stack->end())
    return invalid("functions call each other in a circle, through %s", key.c_str());
  stack->push_back(key);
  int deepest = 0;
  if (stack->size() > kMaxFunctionDepth)
    return invalid("functions are nested deeper than %d, at %s", kMaxFunctionDepth, key.c_str());
  for (const auto& [callee, unused] : tallies_[key].calls) {
    int below = 0;
    PERI_TRY(visit_function(callee, stack, &below));
    deepest = std::max(deepest, below);
  }
  stack->pop_back();
  *height = heights_[key] = deepest + 1;
  if (*height > kMaxFunctionDepth)
    return invalid("functions are nested deeper than %d, at %s", kMaxFunctionDepth, key.c_str());
  finished_.push_back(key);
  return Ok{};
}

void Surveyor::add_uses(const Tally& tally, int64_t times) {
  for (const auto& [op, uses] : tally.ops) {
    Tally::Uses& sum = total_[op];
    sum.count = add_capped(sum.count, mul_capped(uses.count, times));
    s_.report.node_count = add_capped(s_.report.node_count, mul_capped(uses.count, times));
    for (const std::string& name : uses.nodes)
      if (sum.nodes.size() < kNamesShown) sum.nodes.push_back(name);
  }
  work_ = add_capped(work_, mul_capped(tally.nodes, times));
}

Status Surveyor::expand(const Tally& main) {
  std::vector<std::string> stack;
  for (const auto& [key, unused] : s_.functions) {  // those never called too: a circle is refused wherever it is
    int height = 0;
    PERI_TRY(visit_function(key, &stack, &height));
  }
  std::map<std::string, int64_t> times;
  for (const auto& [key, n] : main.calls) times[key] = n;
  add_uses(main, 1);
  for (auto it = finished_.rbegin(); it != finished_.rend(); ++it) {
    const int64_t n = times[*it];
    if (n == 0) continue;
    add_uses(tallies_[*it], n);
    for (const auto& [callee, calls] : tallies_[*it].calls)
      times[callee] = add_capped(times[callee], mul_capped(calls, n));
  }
  if (work_ > options_.max_nodes) return too_many_nodes(work_);
  return Ok{};
}

void Surveyor::list_ops() {
  for (const auto& [id, uses] : total_) {
    OpUse use;
    std::tie(use.domain, use.op, use.opset) = id;
    use.count = uses.count;
    use.nodes = uses.nodes;
    Refusal why;
    use.supported =
        (use.domain.empty() && use.op == "Constant") || find_definition(use.domain, use.op, use.opset, &why);
    use.reason = why.reason;
    use.remedy = why.remedy;
    s_.report.ops.push_back(std::move(use));
  }
  std::stable_sort(s_.report.ops.begin(), s_.report.ops.end(),
                   [](const OpUse& a, const OpUse& b) { return a.supported < b.supported; });
}

std::string function_key(std::string_view domain, std::string_view name, std::string_view overload) {
  std::string key(domain == "ai.onnx" ? "" : domain);
  key += key.empty() ? "" : ".";
  key += name;
  if (!overload.empty()) (key += ':') += overload;
  return key;
}

Result<Survey> survey_bytes(std::string_view bytes, const std::string& path, const ImportOptions& options) {
  Survey s;
  s.report.path = path;
  s.report.file_bytes = bytes.size();
  if (bytes.empty()) return invalid("the file is empty").in_file(path).expecting("an ONNX model");
  auto work = [&]() -> Status {
    PERI_ASSIGN(s.model, read_model(bytes));
    s.report.ir_version = s.model.ir_version;
    s.report.notes = s.model.notes;
    for (const auto& [domain, version] : s.model.opsets) s.report.opsets[domain] = version;
    s.report.producer = s.model.producer;
    s.report.producer_version = s.model.producer_version;
    if (s.model.doc.size() <= 65536 && utf8_valid(s.model.doc)) s.report.doc = s.model.doc;
    return Surveyor(&s, bytes.data(), options).run();
  };
  Status done = work();
  if (!done.ok()) return std::move(done).error().in_file(path);
  return s;
}

}  // namespace peri::onnx
