// peri replay: one problem again, anywhere: every candidate is verified and timed on it, every refusal told.
#include <sys/stat.h>

#include <algorithm>
#include <charconv>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/knobs.hpp"
#include "build/proof.hpp"
#include "cli/console/model.hpp"
#include "cli/console/page.hpp"
#include "compile/backends.hpp"
#include "problem/problem.hpp"
#include "tune/cache.hpp"
#include "tune/tuner.hpp"

namespace peri::cli {
namespace {

// The text of the problem of the step with this key or name in an engine's proof.
Result<std::string> from_proof(const std::string& engine, const std::string& wanted) {
  PERI_ASSIGN(const Json proof, build::read_proof(engine));
  PERI_ASSIGN(const Json::Array* steps, proof.get_array("steps"));
  for (const Json& s : *steps) {
    PERI_ASSIGN(const std::string_view key, s.get_string("key", ""));
    PERI_ASSIGN(const std::string_view name, s.get_string("name", ""));
    if (key != wanted && name != wanted) continue;
    PERI_ASSIGN(const std::string_view problem, s.get_string("problem"));
    return std::string(problem);
  }
  return usage("no step with this key or name")
      .in_file(build::proof_path(engine))
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

// A line is a problem's text, a file that holds it, "region @HASH" of the timing cache, or with --from ENGINE the key
// or name of a step; "seed=N" may follow.
struct Line {
  problem::Problem problem;
  uint64_t seed = 7;
};

bool ends_with_seed(const std::string& text, size_t* at) {
  *at = text.rfind("seed=");
  return *at != std::string::npos && (*at == 0 || text[*at - 1] == ' ' || text[*at - 1] == '}') &&
         text.find_first_not_of("0123456789", *at + 5) == std::string::npos;
}

Result<Line> read_line(const Arguments& arguments) {
  Line line;
  std::string text = arguments.positional[0];
  struct stat info;
  if (text.find('{') == std::string::npos && stat(text.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
    PERI_ASSIGN(text, read_file(text, size_t{64} << 20));
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
  if (arguments.has("--from")) {
    PERI_ASSIGN(text, from_proof(arguments.get("--from"), named ? text.substr(text.find('@') + 1) : text));
  } else if (named) {
    PERI_ASSIGN(text, from_cache(text.substr(text.find('@') + 1)));
  }
  auto parsed = problem::parse(text);
  if (!parsed.ok() && parsed.error().kind == ErrorKind::kInvalid)
    return std::move(parsed).error().advise(
        "a problem is one line, 'matmul a=f32[64,256] b=f32[256,128] +relu', or IR text; a step of an engine: peri "
        "replay NAME --from ENGINE");
  PERI_ASSIGN(line.problem, std::move(parsed));
  return line;
}

// The problem with what --variable names no weight, as every other text of it would give it.
Result<problem::Problem> asked(problem::Problem p, const std::vector<std::string>& variable) {
  for (const std::string& name : variable) {
    const auto at =
        std::find_if(p.graph.inputs.begin(), p.graph.inputs.end(), [&](auto* v) { return v->name == name; });
    if (at == p.graph.inputs.end()) return usage("no input to be variable").but_found(name);
    p.weights[static_cast<size_t>(at - p.graph.inputs.begin())] = false;
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
  return p;
}

void report(const Page& page, JsonWriter& w, const problem::Problem& p, const tune::Candidates& all, uint64_t seed) {
  double flops = 0;
  for (const ir::Node* n : p.graph.nodes) flops += ops::cost_of(*n).flops;
  w.begin_object()
      .field("problem", problem::text(p))
      .field("hash", problem::hash(p))
      .field("seed", seed)
      .field("flops", flops)
      .key("candidates")
      .begin_array();
  for (const tune::Candidate& c : all.list) {
    const tune::Evidence& e = c.evidence;
    const bool good = e.right();
    const std::string times = good && e.timed() ? format("%10.4f ms %8.1f GFLOP/s", e.time_ms, flops / e.time_ms / 1e6)
                                                : std::string(10, ' ') + "-";
    page.line("%-10s %s  error %.3g of its bound  %s%s%s", good ? "right" : "REJECTED", times.c_str(), e.max_error,
              c.id().c_str(), good && e.untimed.empty() ? "" : ": ", (good ? e.untimed : e.rejected).c_str());
    w.begin_object().field("id", c.id()).field("provider", c.kernel->provider).key("evidence");
    tune::write_evidence(w, e);
    w.end_object();
  }
  w.end_array().key("refusals").begin_array();
  for (const tune::Refusal& r : all.refusals) {
    page.line("refused    %s: %s", r.kernel.c_str(), r.reason.c_str());
    w.begin_object().field("kernel", r.kernel).field("reason", r.reason).end_object();
  }
  w.end_array().end_object();
}

Result<Outcome> run(const Arguments& arguments) {
  PERI_ASSIGN(Line line, read_line(arguments));
  PERI_ASSIGN(const problem::Problem p, asked(std::move(line.problem), arguments.all("--variable")));
  tune::Options options;
  PERI_ASSIGN(options.threads, thread_count(arguments));
  options.provider = arguments.get("--provider");
  PERI_ASSIGN(const lower::Backend* backend, compile::backend_named("auto"));
  options.executors = backend->executors;
  options.seed = line.seed;
  PERI_ASSIGN(const int64_t budget, arguments.number("--budget", 1, 600000, 200));
  options.budget_ms = static_cast<double>(budget);
  tune::Tuner tuner(options);
  const tune::Candidates& all = tuner.candidates(p.graph, p.weights);
  const Page page(arguments);
  JsonWriter w;
  report(page, w, p, all, line.seed);
  Outcome out;
  out.json = w.take();
  const int64_t wrong =
      std::count_if(all.list.begin(), all.list.end(), [](const tune::Candidate& c) { return !c.evidence.right(); });
  out.code = wrong ? 3 : 0;
  out.summary = all.list.empty()
                    ? format("no kernel takes it, %zu refuse: it runs on the reference", all.refusals.size())
                    : format("%zu candidates, %lld rejected, seed=%llu", all.list.size(), static_cast<long long>(wrong),
                             static_cast<unsigned long long>(line.seed));
  if (all.list.size() > static_cast<size_t>(wrong))
    out.summary += "; fastest " + all.list[0].id() + format(" %.4f ms", all.list[0].evidence.time_ms);
  return out;
}
}  // namespace

extern const Entry replay_entry;
const Entry replay_entry{{
    .name = "replay",
    .summary = "one problem again: verify and time every candidate, tell every refusal",
    .positional = "LINE|FILE",
    .min_positional = 1,
    .max_positional = 1,
    .flags = {{"--from", "", "ENGINE", "LINE is the name or the key of a step in ENGINE.proof"},
              {"--threads", "", "N", "threads (default: the CPUs this process may use)"},
              {"--provider", "", "NAME", "only candidates of this provider"},
              {"--budget", "", "MS", "timing of one candidate (default 200)"},
              {"--variable", "", "NAME", "an input that is no constant weight", true}},
    .details = "LINE is a problem as proofs and failures print it, and may end with seed=N: an anchor with its "
               "epilogue, a region with its graph, IR text alone (weights are what its ops read as such), or 'region "
               "@HASH' of the timing cache. Exit code 3 when a candidate is wrong.\n\n"
               "example:\n  peri replay 'matmul a=f32[64,256] b=f32[256,128] +bias +relu seed=7'",
    .run = run,
}};

}  // namespace peri::cli
