// peri replay: one problem again, anywhere: every candidate is verified and timed on it, every refusal told.
#include <sys/stat.h>

#include <algorithm>

#include "base/file.hpp"
#include "base/json.hpp"
#include "build/proof.hpp"
#include "cli/console/model.hpp"
#include "cli/console/page.hpp"
#include "tune/judge.hpp"

namespace peri::cli {
namespace {

// The region's text of the step with this key or name in an engine's proof.
Result<std::string> from_proof(const std::string& engine, const std::string& wanted) {
  PERI_ASSIGN(const Json proof, build::read_proof(engine));
  PERI_ASSIGN(const Json::Array* steps, proof.get_array("steps"));
  for (const Json& s : *steps) {
    PERI_ASSIGN(const std::string_view key, s.get_string("key", ""));
    PERI_ASSIGN(const std::string_view name, s.get_string("name", ""));
    if (key != wanted && name != wanted) continue;
    PERI_ASSIGN(const std::string_view region, s.get_string("region"));
    return std::string(region);
  }
  return usage("no step with this key or name")
      .in_file(build::proof_path(engine))
      .but_found(wanted)
      .advise("peri explain ENGINE --json - lists them");
}

// A line is IR text, a file that holds it, or "region @KEY" with --from ENGINE; "seed=N" may follow.
struct Line {
  std::string text;
  uint64_t seed = 7;
};
Result<Line> read_line(const Arguments& arguments) {
  Line line;
  line.text = arguments.positional[0];
  struct stat info;
  if (line.text.find('{') == std::string::npos && stat(line.text.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
    PERI_ASSIGN(line.text, read_file(line.text, size_t{64} << 20));
  }
  const size_t end = std::max(line.text.rfind('}') == std::string::npos ? 0 : line.text.rfind('}') + 1, size_t{0});
  if (const size_t at = line.text.find("seed=", end); at != std::string::npos) {
    line.seed = std::strtoull(line.text.c_str() + at + 5, nullptr, 10);
    line.text.resize(at);
  }
  while (!line.text.empty() && (line.text.back() == ' ' || line.text.back() == '\n')) line.text.pop_back();
  if (line.text.find('{') != std::string::npos) return line;
  if (line.text.starts_with("region ")) line.text.erase(0, 7);
  if (line.text.starts_with("@")) line.text.erase(0, 1);
  if (!arguments.has("--from"))
    return usage("this is no IR text and no file that holds some")
        .but_found(line.text)
        .advise("a region of an engine: peri replay 'region @KEY' --from ENGINE");
  PERI_ASSIGN(line.text, from_proof(arguments.get("--from"), line.text));
  return line;
}

// Weights are what epilogues and anchors read beside their first input, unless --variable names them.
std::vector<bool> constant_inputs(const ir::Graph& g, const std::vector<std::string>& variable) {
  std::vector<bool> out = tune::likely_weights(g);
  for (size_t k = 0; k < out.size(); ++k)
    if (std::find(variable.begin(), variable.end(), g.inputs[k]->name) != variable.end()) out[k] = false;
  return out;
}

void report(const Page& page, JsonWriter& w, const ir::Graph& g, const tune::Candidates& all,
            const std::vector<bool>& constant, uint64_t seed) {
  double flops = 0;
  for (const ir::Node* n : g.nodes) flops += ops::cost_of(*n).flops;
  w.begin_object()
      .field("region", ir::print(g, {16, false}))
      .field("seed", seed)
      .field("flops", flops)
      .key("constant")
      .begin_array();
  for (bool c : constant) w.value(c);
  w.end_array().key("candidates").begin_array();
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
  PERI_ASSIGN(const Line line, read_line(arguments));
  PERI_ASSIGN(ir::Graph g, ir::parse_graph(line.text));
  PERI_TRY(g.sort());
  PERI_TRY(ops::infer_graph(g));
  for (const ir::Value* v : g.inputs)
    if (!v->type.known() || !is_const(*v->type.shape))
      return usage("input '%s' has an open dimension", v->name.c_str())
          .but_found(ir::type_text(v->type))
          .advise("a problem has concrete dims: write numbers");
  if (g.outputs.empty() || g.nodes.empty()) return usage("the problem has no node or no output");
  for (const ir::Value* v : g.outputs)
    if (!is_const(*v->type.shape))
      return usage("output '%s' depends on data", v->name.c_str())
          .advise("only problems with known sizes are replayed");
  tune::Options options;
  PERI_ASSIGN(options.threads, thread_count(arguments));
  options.provider = arguments.get("--provider");
  options.seed = line.seed;
  PERI_ASSIGN(const int64_t budget, arguments.number("--budget", 1, 600000, 200));
  options.budget_ms = static_cast<double>(budget);
  const std::vector<bool> constant = constant_inputs(g, arguments.all("--variable"));
  tune::Tuner tuner(options);
  const tune::Candidates& all = tuner.candidates(g, constant);
  const Page page(arguments);
  JsonWriter w;
  report(page, w, g, all, constant, line.seed);
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
    .flags = {{"--from", "", "ENGINE", "where 'region @KEY' or a step's name is looked up: the ENGINE.proof"},
              {"--threads", "", "N", "threads (default: the CPUs this process may use)"},
              {"--provider", "", "NAME", "only candidates of this provider"},
              {"--budget", "", "MS", "timing of one candidate (default 200)"},
              {"--variable", "", "NAME", "an input that is no constant weight", true}},
    .details = "LINE is IR text, as explain and failures print it, and may end with seed=N. Exit code 3 when a "
               "candidate is wrong.\n\n"
               "example:\n  peri replay 'graph { input x: f32[64,256]; input w: f32[256,128]; y = matmul(x, w); output "
               "y; } seed=7'",
    .run = run,
}};

}  // namespace peri::cli
