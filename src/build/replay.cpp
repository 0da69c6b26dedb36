// Parses the line and runs the tuner on it.
#include "build/replay.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "base/byte_text.hpp"
#include "base/file.hpp"
#include "base/knobs.hpp"
#include "base/plural.hpp"
#include "base/shell_word.hpp"
#include "build/explain.hpp"
#include "build/open.hpp"
#include "build/proof.hpp"
#include "build/request.hpp"
#include "compile/backends.hpp"
#include "exec/entry.hpp"
#include "plan/engine_file.hpp"
#include "tune/cache.hpp"
#include "tune/rejection.hpp"
#include "tune/worker.hpp"

namespace peri::build {

namespace {
// The steps of a list and those of their bodies, each before its own.
Status gather_steps(const Json::Array& list, std::vector<const Json*>* out) {
  for (const Json& s : list) {
    out->push_back(&s);
    for (const Json& body : proof_items(s, "bodies")) {
      PERI_ASSIGN(const Json::Array* inner, body.as_array());
      PERI_TRY(gather_steps(*inner, out));
    }
  }
  return Ok{};
}

Status without_problem(const Json& step, const std::string& engine) {
  constexpr size_t kMaxNames = 8;  // in a line of an error; explain lists all
  const std::string name = proof_word(step, "name");
  std::vector<const Json*> inner;
  for (const Json& body : proof_items(step, "bodies")) {
    PERI_ASSIGN(const Json::Array* list, body.as_array());
    PERI_TRY(gather_steps(*list, &inner));
  }
  std::string names;
  size_t count = 0;
  std::map<std::string, int> same{{name, 1}};
  for (const Json* s : inner) ++same[proof_word(*s, "name")];
  for (const Json* s : inner)
    if (!proof_word(*s, "problem").empty() && ++count <= kMaxNames) {
      const std::string own = proof_word(*s, "name");  // of several with one name each is found by its key
      names += (names.empty() ? "'" : ", '") + (same[own] > 1 ? proof_word(*s, "key") : own) + "'";
    }
  if (count > kMaxNames) names += " and " + std::to_string(count - kMaxNames) + " more";
  if (!proof_items(step, "bodies").empty())
    return usage("step '%s' has no problem of its own: it is a loop or a branch", name.c_str())
        .in_file(proof_path(engine))
        .advise(names.empty() ? "none of the steps of its bodies has one" : "replay a step of its bodies: " + names);
  return usage("step '%s' has no problem of its own: its sizes are told by data, or it only moves data", name.c_str())
      .in_file(proof_path(engine))
      .advise("peri explain ENGINE --json - lists the steps that have a 'problem'");
}

// A name of several unlike problems tells none of them.
Status check_one(const std::vector<const Json*>& named, const std::string& engine) {
  constexpr size_t kMaxShown = 12, kMaxText = 40;  // steps in an error, and letters of each
  std::string keys, first;
  size_t count = 0;
  std::set<std::string> problems;
  for (const Json* s : named) {
    const std::string text = proof_word(*s, "problem");
    if (text.empty() || !problems.insert(text).second || ++count > kMaxShown) continue;
    std::string shown = text.substr(0, std::min(text.find('\n'), kMaxText));
    if (shown.size() < text.size()) shown += "...";
    keys += (keys.empty() ? "" : ", ") + proof_word(*s, "key") + " (" + shown + ")";
    if (first.empty()) first = proof_word(*s, "key");
  }
  if (count < 2) return Ok{};
  if (count > kMaxShown) keys += " and " + std::to_string(count - kMaxShown) + " more";
  return usage("%zu steps have this name", count)
      .in_file(proof_path(engine))
      .at_node(proof_word(*named[0], "name"))
      .expecting("the key of one: " + keys)
      .advise("peri replay " + first + " --from " + shell_word(engine));
}

// The text of the problem of the step with this key or name in an engine's proof, in bodies too.
Result<std::string> from_proof(const std::string& engine, const std::string& wanted) {
  PERI_ASSIGN(const Json proof, read_proof(engine));
  PERI_ASSIGN(const Json::Array* list, proof.get_array("steps"));
  std::vector<const Json*> steps;
  PERI_TRY(gather_steps(*list, &steps));
  std::vector<const Json*> named;
  for (const Json* s : steps) {
    PERI_ASSIGN(const std::string_view key, s->get_string("key", ""));
    PERI_ASSIGN(const std::string_view name, s->get_string("name", ""));
    if (key == wanted) {
      named = {s};
      break;
    }
    if (name == wanted) named.push_back(s);
  }
  if (!named.empty()) {
    PERI_ASSIGN(const std::string_view problem, named[0]->get_string("problem", ""));
    if (problem.empty()) PERI_TRY(without_problem(*named[0], engine));
    PERI_TRY(check_one(named, engine));
    return std::string(problem);
  }
  return usage("no step with this key or name")
      .in_file(proof_path(engine))
      .but_found(wanted)
      .advise("peri explain ENGINE --json - lists them");
}

Result<std::string> from_cache(const std::string& hash) {
  const std::string folder = cache_folder();
  if (!folder.empty())
    if (auto known = tune::Cache::open(folder, "")->find_problem(hash)) return *std::move(known);
  return usage("the timing cache of this machine knows no such problem")
      .but_found("@" + hash)
      .advise("name the engine it is a step of: peri replay 'region @HASH' --from ENGINE");
}

struct Line {
  problem::Problem problem;
  bool words = false;  // the problem is one line, whose inputs have the names of the operator's ports
  uint64_t seed = 7;
};

bool ends_with_seed(const std::string& text, size_t* at) {
  *at = text.rfind("seed=");
  return *at != std::string::npos && (*at == 0 || text[*at - 1] == ' ' || text[*at - 1] == '}') &&
         text.find_first_not_of("0123456789", *at + 5) == std::string::npos;
}

Result<Line> read_line(const ReplayRequest& request) {
  Line line;
  std::string text = request.line, file;
  struct stat info;
  const bool path = text.find('{') == std::string::npos && text.find('=') == std::string::npos;
  if (const bool exists = path && stat(text.c_str(), &info) == 0; exists && !S_ISDIR(info.st_mode)) {
    file = std::exchange(text, "");
    PERI_ASSIGN(text, read_file(file, size_t{64} << 20));
    if (text.find('\0') != std::string::npos)
      return usage("not a problem")
          .in_file(file)
          .expecting("a line of text")
          .but_found("bytes that are none")
          .advise("a step of an engine: peri replay NAME --from ENGINE");
    if (text.starts_with('{'))
      return usage("not a problem")
          .in_file(file)
          .expecting("a line of text")
          .but_found(kProofFile.begins(text) ? "the proof of an engine" : "JSON")
          .advise("a step of an engine: peri replay NAME --from ENGINE");
  } else if (path && (exists || text.find_first_of("/.") != std::string::npos) && request.engine.empty()) {
    return exists ? usage("not a problem").in_file(text).expecting("a line or a file").but_found("a folder")
                  : io_error("neither a problem nor a file that exists").in_file(text);
  }
  const auto trim = [&] {
    while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.pop_back();
  };
  trim();
  if (size_t at = 0; ends_with_seed(text, &at)) {
    const auto [end, code] = std::from_chars(text.data() + at + 5, text.data() + text.size(), line.seed);
    if (code != std::errc() || end != text.data() + text.size())
      return usage("the seed is not a whole number from 0 to 18446744073709551615").but_found(text.substr(at));
    text.resize(at);
    trim();
  }
  const bool named = text.starts_with("region @") || text.starts_with("@");
  if (!request.engine.empty()) {
    PERI_ASSIGN(text, from_proof(request.engine, named ? text.substr(text.find('@') + 1) : text));
  } else if (named) {
    PERI_ASSIGN(text, from_cache(text.substr(text.find('@') + 1)));
  }
  auto parsed = problem::parse(text);
  if (!parsed.ok() && (parsed.error().kind == ErrorKind::kInvalid || parsed.error().kind == ErrorKind::kUnsupported)) {
    Error e = std::move(parsed).error();
    const bool form = e.kind == ErrorKind::kInvalid;
    if (!file.empty()) e.file = file;
    if (e.expected.find(kDataDim) != std::string::npos)
      return usage("the data decide the sizes of its results: it is not replayed alone")
          .in_file(e.file)
          .at_node(e.node)
          .advise("judge it in runs of its engine: peri verify ENGINE --steps-only");
    if (file.empty() && request.engine.empty() && !named) e.kind = ErrorKind::kUsage;  // it was typed
    if (!form) return std::move(e).advise("peri inspect --operators lists the operators and their types");
    return std::move(e).advise(
        "a problem is one line, 'matmul a=f32[64,256] b=f32[256,128] +relu', or IR text; a step of an engine: peri "
        "replay NAME --from ENGINE");
  }
  PERI_ASSIGN(line.problem, std::move(parsed));
  line.words = text.find('{') == std::string::npos;
  return line;
}

// What a line calls an input: the port of the first node that it goes to. "": it has no name there.
std::string name_in_line(const ir::Graph& graph, const ir::Value* input) {
  const ops::OpDef* op = graph.nodes.empty() ? nullptr : ops::find(graph.nodes[0]->op);
  for (size_t port = 0; op && port < op->inputs.size() && port < graph.nodes[0]->inputs.size(); ++port)
    if (graph.nodes[0]->inputs[port] == input && !op->inputs[port].variadic) return std::string(op->inputs[port].name);
  return "";
}

// The problem with what `variable` names no weight, as every other text of it would give it.
Result<problem::Problem> asked(Line line, const std::vector<std::string>& variable) {
  problem::Problem& p = line.problem;
  std::vector<std::string> in_line;
  for (const ir::Value* v : p.graph.inputs) in_line.push_back(line.words ? name_in_line(p.graph, v) : "");
  for (const std::string& name : variable) {
    const auto known =
        std::find_if(p.graph.inputs.begin(), p.graph.inputs.end(), [&](auto* v) { return v->name == name; });
    size_t at = static_cast<size_t>(known - p.graph.inputs.begin());
    if (known == p.graph.inputs.end())
      at = static_cast<size_t>(std::find(in_line.begin(), in_line.end(), name) - in_line.begin());
    if (name.empty() || at == in_line.size()) {
      std::string names;
      for (size_t k = 0; k < in_line.size(); ++k)
        names += (names.empty() ? "" : ", ") + (in_line[k].empty() ? p.graph.inputs[k]->name : in_line[k]);
      return usage("--variable names no input of the problem").expecting("one of " + names).but_found(name);
    }
    p.weights[at] = false;
  }
  for (const ir::Value* v : p.graph.inputs)
    if (!v->type.known() || !is_const(*v->type.shape))
      return usage("input '%s' has an open dimension", v->name.c_str())
          .but_found(ir::type_text(v->type))
          .advise("a problem has concrete dims: write numbers");
  if (p.graph.outputs.empty() || p.graph.nodes.empty()) return usage("the problem has no node or no output");
  for (const ir::Value* v : p.graph.outputs)
    if (!is_const(*v->type.shape))
      return usage("output '%s' depends on data", v->name.c_str())
          .advise("only problems with known sizes are replayed");
  p.graph = problem::canonical(p.graph);
  return std::move(p);
}

}  // namespace

namespace {
const double kUnknownModel = tune::Options().model_bytes;  // of a line that no engine is given with

// Of all its weights; none where there is no engine file beside the proof.
std::optional<double> weight_bytes_of(const std::string& engine) {
  if (!is_engine(engine)) return std::nullopt;
  const auto loaded = plan::load_engine(engine);
  if (!loaded.ok()) return std::nullopt;
  return static_cast<double>(loaded->weight_bytes.size());
}
}  // namespace

bool is_untried(const tune::Evidence& e) { return e.right() ? !e.tried() : tune::was_untried(e.rejected); }

int64_t Replay::wrong() const {
  return std::count_if(candidates.list.begin(), candidates.list.end(), [](const tune::Candidate& c) {
    return !c.evidence.right() && !tune::was_untried(c.evidence.rejected);
  });
}

int64_t Replay::untried() const {
  return std::count_if(candidates.list.begin(), candidates.list.end(),
                       [](const tune::Candidate& c) { return is_untried(c.evidence); });
}

std::string Replay::summary() const {
  if (candidates.list.empty()) {
    const auto& all = candidates.refusals;
    const auto left_out = std::find_if(all.begin(), all.end(),
                                       [](const tune::Refusal& r) { return r.reason.starts_with(tune::kLeftOut); });
    const std::string whose = left_out == all.end() ? "" : " of " + left_out->reason.substr(tune::kLeftOut.size());
    return format("no kernel%s takes it, %zu refuse: it runs on the reference", whose.c_str(),
                  all.size() - (left_out != all.end()));
  }
  std::string out =
      counted(std::ssize(candidates.list), "candidate") +
      format(", %lld rejected, seed=%llu", static_cast<long long>(wrong()), static_cast<unsigned long long>(seed));
  if (untried() > 0) out += ", " + std::to_string(untried()) + " could not be tried";
  const tune::Candidate& first = candidates.list[0];
  if (first.evidence.right() && first.evidence.timed())
    out += "; fastest " + first.id() + " " + ms_digits(first.evidence.time_ms) + " ms";
  return out;
}

Result<Replay> replay(const ReplayRequest& request) {
  PERI_ASSIGN(Line line, read_line(request));
  Replay out;
  out.seed = line.seed;
  PERI_ASSIGN(out.problem, asked(std::move(line), request.variable));
  for (const ir::Node* n : out.problem.graph.nodes) out.flops += ops::cost_of(*n).flops;
  tune::Options options;
  PERI_ASSIGN(options.threads, threads_of(request.threads));
  options.provider = request.provider;
  PERI_ASSIGN(const lower::Backend* const backend, compile::backend_for(request.backend, request.device));
  options.executors = backend->executors;
  if (backend->placement.own_only) options.own_executor = backend->placement.executor;
  if (!backend->placement.device.empty()) options.device = request.device;
  if (backend->target) {
    PERI_ASSIGN(options.target, backend->target(options.threads, exec::libraries(), request.device));
  }
  PERI_TRY(compile::check_provider(request.provider, *backend, options.target));
  options.seed = out.seed;
  options.budget_ms = request.budget_ms;
  options.stop = request.stop;
  options.worker = tune::worker_program();
  options.why_no_worker = tune::why_no_worker();
  if (const auto bytes = weight_bytes_of(request.engine)) options.model_bytes = *bytes;
  if (options.own_executor.empty())
    out.terms = options.model_bytes < kUnknownModel
                    ? "timed as in its build, with the engine's " + bytes_text(options.model_bytes) +
                          " of weights read between runs"
                    : "timed as in a large model: its weights come from memory in each run";
  tune::Tuner tuner(options);
  out.candidates = tuner.candidates(out.problem.graph, out.problem.weights);
  out.notes = compile::notes_of(*backend, true);
  if (const tune::Tuner::Stats done = tuner.stats(); !done.worker && !options.worker.empty())
    out.notes.push_back("candidates were tried in this process, which a crash would end: " + done.worker_trouble);
  return out;
}

void write_replay(JsonWriter& w, const Replay& r) {
  w.begin_object()
      .field("problem", problem::text(r.problem))
      .field("hash", problem::hash(r.problem))
      .field("seed", r.seed)
      .field("flops", r.flops)
      .field("terms", r.terms)
      .key("candidates")
      .begin_array();
  for (const tune::Candidate& c : r.candidates.list) {
    w.begin_object().field("id", c.id()).field("provider", c.kernel->provider);
    w.field("untried", is_untried(c.evidence)).key("evidence");
    tune::write_evidence(w, c.evidence);
    if (c.offer.needs) {
      w.key("needs");
      kernels::write_needs(w, *c.offer.needs);
    }
    w.end_object();
  }
  w.end_array().key("refusals").begin_array();
  for (const tune::Refusal& refusal : r.candidates.refusals)
    w.begin_object().field("kernel", refusal.kernel).field("reason", refusal.reason).end_object();
  w.end_array().key("notes").begin_array();
  for (const std::string& note : r.notes) w.value(note);
  w.end_array().end_object();
}

}  // namespace peri::build
