// peri explain: for every step of an engine, where it came from, what it was chosen from and why not the others, what
// it costs, and how far that is from the least this machine could take.
#include <sys/stat.h>

#include <algorithm>

#include "base/json.hpp"
#include "bench/peaks.hpp"
#include "cli/core/model.hpp"
#include "cli/core/page.hpp"
#include "cli/core/proof.hpp"

namespace peri::cli {
namespace {

double number(const Json& j, std::string_view key) { return j.get_double(key, 0.0).ok() ? *j.get_double(key, 0.0) : 0; }
std::string word(const Json& j, std::string_view key) {
  return j.get_string(key, "").ok() ? std::string(*j.get_string(key, "")) : "";
}
const Json::Array& items(const Json& j, std::string_view key) {
  static const Json kNone;
  const Json* list = j.find(key);
  return (list ? *list : kNone).items();
}
std::string joined(const Json& j, std::string_view key, size_t at_most) {
  std::string out;
  size_t n = 0;
  for (const Json& item : items(j, key)) {
    auto text = item.as_string();
    if (text.ok() && n < at_most) out += (n ? ", " : "") + std::string(*text);
    ++n;
  }
  return n > at_most ? out + format(" and %zu more", n - at_most) : out;
}

// The proof as JSON: beside an engine, or of a model built now.
Result<Json> proof_of(const Arguments& arguments, const std::string& path, Progress* progress) {
  if (is_engine(path)) {
    auto text = read_file(proof_path(path), size_t{256} << 20);
    if (!text.ok())
      return std::move(text).error().advise("the proof is written by peri build; without it explain the model instead");
    auto json = parse_json(*text);
    if (!json.ok()) return std::move(json).error().in_file(proof_path(path));
    return json;
  }
  PERI_ASSIGN(const compile::Options options, build_options(arguments, path, progress));
  build::Built built;
  PERI_ASSIGN(built.compiled, compile_whole(options, progress));
  return parse_json(proof_json(built, options));
}

struct Row {
  const Json* step = nullptr;
  double ms = 0, floor = 0, share = 0;  // share of the floor reached: floor / ms
};

void print_row(const Page& page, const Row& r, double total, bool full) {
  const Json& s = *r.step;
  const std::string ms = r.ms < 0 ? "-" : format("%.4f", r.ms),
                    share = r.ms > 0 ? format("%.0f%%", 100 * r.share) : "-";
  page.line("%9s %5.1f%% %9.4f %6s %9.2f %9.2f  %s  [%s]", ms.c_str(), total > 0 && r.ms > 0 ? 100 * r.ms / total : 0,
            r.floor, share.c_str(), number(s, "flops") / 1e6, number(s, "bytes") / 1e6, word(s, "name").c_str(),
            word(s, "chosen").c_str());
  if (!full) return;
  page.line("            from %s", joined(s, "origins", 6).c_str());
  if (const std::string passes = joined(s, "touched_by", 12); !passes.empty())
    page.line("            passes %s", passes.c_str());
  for (const Json& o : items(s, "others"))
    page.line("            also %s: %.4f ms", word(o, "id").c_str(), number(o, "median_ms"));
  for (const Json& o : items(s, "refusals"))
    page.line("            not %s: %s", word(o, "kernel").c_str(), word(o, "reason").c_str());
}

std::string explain_json(const std::string& path, const Json& proof, const bench::Peaks& peaks,
                         const std::vector<Row>& rows, double total, double floor) {
  JsonWriter w;
  w.begin_object()
      .field("of", path)
      .field("total_ms", total)
      .field("floor_ms", floor)
      .field("share_of_floor", total > 0 ? floor / total : 0);
  w.key("peaks")
      .begin_object()
      .field("threads", peaks.threads)
      .field("fma_gflops", peaks.fma_gflops)
      .key("copy_gbs")
      .begin_array();
  for (const auto& [bytes, gbs] : peaks.copy_gbs)
    w.begin_object().field("working_set_bytes", bytes).field("gbs", gbs).end_object();
  w.end_array().end_object().key("layers").begin_array();
  for (const Row& r : rows)
    w.begin_object()
        .field("ms", r.ms)
        .field("floor_ms", r.floor)
        .field("share_of_floor", r.share)
        .key("step")
        .value(*r.step)
        .end_object();
  w.end_array();
  for (const char* key : {"machine", "verification", "tuner", "passes", "tuned_for", "notes"})
    if (const Json* j = proof.find(key)) w.key(key).value(*j);
  w.end_object();
  return w.take();
}

Result<Outcome> run(const Arguments& arguments) {
  const std::string path = arguments.positional[0];
  Progress progress(arguments.has("--quiet"));
  PERI_ASSIGN(const Json proof, proof_of(arguments, path, &progress));
  PERI_ASSIGN(const int here, thread_count(arguments));
  const int threads =
      arguments.has("--threads") ? here : std::clamp(static_cast<int>(number(proof, "threads")), 1, here);
  const bench::Peaks peaks = bench::measure_peaks(threads, 1.0);
  std::vector<Row> rows;
  double total = 0, floor = 0;
  for (const Json& s : items(proof, "steps")) {
    Row r;
    r.step = &s;
    r.ms = s.find("median_ms") ? number(s, "median_ms") : -1;
    r.floor = bench::floor_ms(peaks, number(s, "algorithm_flops"), number(s, "bytes"));
    r.share = r.ms > 0 ? r.floor / r.ms : 0;
    if (r.ms > 0) total += r.ms;
    floor += r.floor;
    rows.push_back(r);
  }
  if (rows.empty()) return invalid("the proof has no steps").in_file(path);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.ms != b.ms ? a.ms > b.ms : a.floor > b.floor; });
  const Page page(arguments);
  PERI_ASSIGN(const int64_t top, arguments.number("--top", 1, 1000000, 20));
  page.line("peaks of %d thread%s: %.0f GFLOP/s, copies %.0f GB/s in cache, %.0f GB/s in memory", threads,
            threads == 1 ? "" : "s", peaks.fma_gflops, peaks.copy_gbs.front().second, peaks.copy_gbs.back().second);
  page.line("%9s %6s %9s %6s %9s %9s  step [chosen]", "ms", "share", "floor ms", "of it", "MFLOP", "MB");
  for (size_t k = 0; k < rows.size() && k < static_cast<size_t>(top); ++k)
    print_row(page, rows[k], total, arguments.has("--full"));
  if (rows.size() > static_cast<size_t>(top))
    page.line("and %zu more: --top N shows them, --full shows candidates and refusals",
              rows.size() - static_cast<size_t>(top));
  Outcome out;
  out.json = explain_json(path, proof, peaks, rows, total, floor);
  out.summary = total > 0 ? format("%zu steps, %.3f ms measured, floor %.3f ms, %.0f %% of it reached", rows.size(),
                                   total, floor, 100 * floor / total)
                          : format("%zu steps, not measured (built with --no-tune), floor %.3f ms", rows.size(), floor);
  const Json* verification = proof.find("verification");
  auto verified = verification ? verification->get_bool("verified", false) : Result<bool>(false);
  if (!verified.ok() || !*verified) out.summary += "; candidates were not verified";
  return out;
}
}  // namespace

extern const Entry explain_entry;
const Entry explain_entry{{
    .name = "explain",
    .summary = "where the time goes, what each step was chosen from, and how far it is from its floor",
    .positional = "MODEL|ENGINE",
    .min_positional = 1,
    .max_positional = 1,
    .flags = build_flags({{"--top", "", "N", "rows of the table (default 20)"},
                          {"--full", "", "", "also each step's nodes, passes, candidates and refusals"}}),
    .details = "An engine is explained from the ENGINE.proof beside it, a model is built first. The floor of a step is "
               "the dearer of the\n"
               "chosen algorithm's arithmetic at the measured multiply-add peak and its inputs and outputs once at the "
               "better of the copy and read rates of a working set that size.\n\n"
               "example:\n  peri explain models/digits_cnn.onnx --full",
    .run = run,
}};

}  // namespace peri::cli
