// peri explain: for every step of an engine its origin, the candidates and refusals, its time, and how far that is from
// the hardware minimum.
#include "build/explain.hpp"

#include <algorithm>

#include "base/json.hpp"
#include "base/plural.hpp"
#include "build/explain_page.hpp"
#include "build/proof.hpp"
#include "cli/console/measured.hpp"
#include "cli/console/model.hpp"
#include "cli/console/page.hpp"
#include "judge/engine.hpp"

namespace peri::cli {
namespace {

std::string joined(const Json& j, std::string_view key, size_t at_most) {
  std::string out;
  size_t n = 0;
  for (const Json& item : build::proof_items(j, key)) {
    auto text = item.as_string();
    if (text.ok() && n < at_most) out += (n ? ", " : "") + std::string(*text);
    ++n;
  }
  return n > at_most ? out + format(" and %zu more", n - at_most) : out;
}

void print_row(const Page& page, const build::ExplainedStep& r, double total, bool full) {
  const Json& s = *r.step;
  const bool timed = r.ms > 0;
  const std::string ms = r.timed() ? build::ms_digits(r.ms) : "-", floor = r.floor ? build::ms_digits(*r.floor) : "-",
                    peak = r.sustained ? build::ms_digits(*r.sustained) : "-",
                    part = timed && total > 0 ? format("%.1f%%", 100 * r.ms / total) : "-",
                    share = timed && r.sustained ? format("%.0f%%", 100 * r.share_of(r.sustained)) : "-";
  // Of a step in a body: how often it runs; the columns are of all its runs.
  const auto runs = static_cast<double>(r.runs.value_or(1));
  const std::string times = !r.in_body ? "" : !r.runs ? " once" : format(" x %lld", static_cast<long long>(*r.runs));
  const bool other_size =
      !r.assumed_sizes.empty() && r.of_engine;  // the work is known of that size, and the time of the real
  const std::string mflop = other_size ? "-" : format("%.2f", runs * r.work.flops / 1e6),
                    mb = other_size ? "-" : format("%.2f", runs * r.work.bytes / 1e6);
  page.line("%9s %6s %9s %9s %6s %9s %9s  %s  [%s]%s", ms.c_str(), part.c_str(), floor.c_str(), peak.c_str(),
            share.c_str(), mflop.c_str(), mb.c_str(), build::proof_word(s, "name").c_str(),
            build::proof_word(s, "chosen").c_str(), times.c_str());
  if (!r.assumed_sizes.empty() && !r.of_engine)
    page.line("            %s assumed sizes, for what the data decide: %s", r.timed() ? "timed at" : "all this is of",
              judge::sizes_text(r.assumed_sizes).c_str());
  if (!r.evidence.untimed.empty()) page.line("            no time: %s", r.evidence.untimed.c_str());
  if (!full) return;
  page.line("            from %s", joined(s, "origins", 6).c_str());
  if (const std::string passes = joined(s, "touched_by", 12); !passes.empty())
    page.line("            passes %s", passes.c_str());
  for (const Json& o : build::proof_items(s, "others")) {
    const Json* evidence = o.find("evidence");
    const auto known = evidence ? tune::read_evidence(*evidence) : Result<tune::Evidence>(tune::Evidence());
    const bool known_time = known.ok() && known->timed();
    const std::string layouts = build::proof_word(o, "layouts");
    page.line("            also %s%s: %s", build::proof_word(o, "id").c_str(),
              layouts.empty() ? "" : (" (" + layouts + ")").c_str(),
              known_time                              ? (build::ms_digits(known->time_ms) + " ms").c_str()
              : known.ok() && !known->untimed.empty() ? known->untimed.c_str()
                                                      : "not measured");
  }
  for (const Json& o : build::proof_items(s, "refusals")) {
    const std::string kernel = build::proof_word(o, "kernel");
    page.line("            %s: %s", kernel == "*" ? "no kernel" : ("not " + kernel).c_str(),
              build::proof_word(o, "reason").c_str());
  }
}

void print_head(const Page& page, const build::Explanation& e, const std::string& whose) {
  const bench::Ceilings& c = e.ceilings;
  const bench::Peaks& p = e.peaks;
  const char* s = c.threads == 1 ? "" : "s";
  page.line("ceilings of %d thread%s%s: %.0f GFLOP/s at %.2f GHz (%s)", c.threads, s, whose.c_str(), c.gflops(false),
            c.clock_ghz, c.clock_from.c_str());
  if (!p.copy_gbs.empty())
    page.line("sustained: %.0f GFLOP/s, %.0f GOP/s of bytes, copies %.0f GB/s in cache, %.0f GB/s in memory",
              p.fma_gflops, p.byte_gops, p.copy_gbs.front().second, p.copy_gbs.back().second);
  if (e.away > 0)
    page.line("on a device: %s, with floors of its own, '-' where they were not told",
              counted(static_cast<int64_t>(e.away), "step").c_str());
  if (e.times_runs()) page.line("%s", std::string(build::kEngineTimeInWords).c_str());
  page.line("ms: %s; floor: hardware minimum (roofline); peak: at sustained rates; effic.: peak ms / ms",
            std::string(tune::kTimeInWords).c_str());
}

void print_rows(const Page& page, const build::Explanation& e, size_t top, bool full) {
  page.line("%9s %6s %9s %9s %6s %9s %9s  step [chosen]", "ms", "share", "floor ms", "peak ms", "effic.", "MFLOP",
            "MB");
  for (size_t k = 0; k < e.steps.size() && k < top; ++k) print_row(page, e.steps[k], e.ms, full);
  if (e.steps.size() > top)
    page.line("and %zu more: --top N shows them%s", e.steps.size() - top,
              full ? "" : ", --full shows candidates and refusals");
}

Result<Outcome> run(const Arguments& arguments) {
  PERI_ASSIGN(const int64_t top, arguments.number("--top", 1, 1000000, 20));
  for (const char* flag : {"--top", "--full", "--html", "--proof", "--compare"})
    if (arguments.has("--measured") && arguments.has(flag))
      return usage("%s is for the times of a proof, and --measured takes its own", flag)
          .advise("leave one of them out");
  if (arguments.has("--measured")) return explain_measured(arguments);
  const std::string path = arguments.positional[0];
  const bool compare = arguments.has("--compare");
  static constexpr std::string_view kObeyed[] = {"--kernel"};
  if (build::is_engine(path)) PERI_TRY(check_engine_flags(arguments, kObeyed));
  for (const char* flag : {"--proof", "--compare"})
    if (!build::is_engine(path) && arguments.has(flag)) return usage("%s is for engines", flag).in_file(path);
  Progress progress(arguments.has("--quiet"));
  PERI_ASSIGN(const build::Request request, build_request(arguments, path, &progress));
  PERI_ASSIGN(const Json proof, build::proof_of(request, arguments.get("--proof")));
  progress.clear();
  auto explained = build::explain(proof, compare);
  if (!explained.ok()) return std::move(explained).error().in_file(path);
  const Page page(arguments);
  std::string other, cut;
  if (arguments.has("--proof")) {
    PERI_ASSIGN(other, build::another_engines(proof, path));
    if (!other.empty()) page.line("note: the proof is another engine's: %s", other.c_str());
  }
  print_head(page, *explained, compare ? " of this machine" : "");
  if (build::is_engine(path)) {
    PERI_ASSIGN(const plan::LoadedEngine engine, plan::load_engine(path));
    cut = build::interrupted_build(engine.program);
    const std::string mark = build::tuned_elsewhere(engine.program, build::chip_here(engine.program, ""));
    if (!mark.empty()) page.line("note: %s", mark.c_str());
  }
  for (const std::string& note : build::proof_words(proof, "notes")) page.line("note: %s", note.c_str());
  for (const Json& h : build::proof_items(proof, "on_host")) {
    PERI_ASSIGN(const double copies, h.get_double("copies_ms"));
    page.line("on the host: %s, copies for it %.4f ms: %s", build::proof_word(h, "name").c_str(), copies,
              build::proof_word(h, "reason").c_str());
  }
  print_rows(page, *explained, static_cast<size_t>(top), arguments.has("--full"));
  if (arguments.has("--html"))
    PERI_TRY(write_named_file(arguments.get("--html"), build::explanation_page(path, proof, *explained)));
  Outcome out;
  out.json = build::explanation_json(path, proof, *explained);
  out.summary = explained->text();
  out.summary += explained->proven;
  if (arguments.has("--html")) out.summary += "; page " + arguments.get("--html");
  if (!cut.empty()) out.summary += "; " + cut;
  if (!other.empty()) out.summary += "; the proof is another engine's";
  return out;
}
}  // namespace

extern const Entry explain_entry;
const Entry explain_entry{{
    .name = "explain",
    .summary = "show where the time goes, why each kernel was chosen, and its distance from the hardware minimum",
    .positional = "MODEL|ENGINE",
    .min_positional = 1,
    .max_positional = 1,
    .flags = build_flags(
        {{"--top", "", "N", "rows of the table (default 20)"},
         {"--full", "", "", "also each step's nodes, passes, candidates and refusals"},
         {"--html", "", "FILE", "write a self-contained HTML page", false, &build::kPageFile},
         {"--measured", "", "", "engine on a device: time the steps within the run"},
         {"--proof", "", "FILE", "the proof to read, even another engine's (default: ENGINE.proof)"},
         {"--compare", "", "", "accept an engine from another machine: compare its times with this machine's floors"}}),
    .details =
        "An engine is explained from the ENGINE.proof beside it; a model is built first. The floor of a step is the "
        "hardware minimum (roofline): the time that the chosen algorithm's arithmetic and the step's arguments and "
        "results take at the processor's limits. Its efficiency is the time at the rates this machine sustains, as a "
        "share of the measured time. Both belong to the machine that built the engine; a proof of another machine is "
        "refused without --compare.\n\n"
        "example:\n  peri explain models/digits_cnn.onnx --full",
    .run = run,
}};

}  // namespace peri::cli
