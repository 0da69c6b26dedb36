// peri explain: for every step of an engine, where it came from, what it was chosen from and why not the others, what
// it costs, and how far that is from the least this machine could take.
#include <algorithm>

#include "base/json.hpp"
#include "bench/ceilings.hpp"
#include "bench/peaks.hpp"
#include "cli/core/machine.hpp"
#include "cli/core/model.hpp"
#include "cli/core/page.hpp"
#include "cli/core/proof.hpp"

namespace peri::cli {
namespace {

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
  if (is_engine(path)) return read_proof(path);
  PERI_ASSIGN(const compile::Options options, build_options(arguments, path, progress));
  build::Built built;
  PERI_ASSIGN(built.compiled, compile_whole(options, progress));
  return parse_json(proof_json(built, options));
}

// What times are held against.
struct Rates {
  bench::Ceilings ceilings;
  bench::Peaks peaks;
};

// Those of the machine that took the times, which must be one like this; to compare, those of this one.
Result<Rates> rates_of(const Json& proof, bool compare) {
  PERI_ASSIGN(const Json* machine, proof.get("machine"));
  if (compare) {
    PERI_ASSIGN(const int64_t threads, proof.get_int("threads"));
    const int here = std::clamp(static_cast<int>(std::min<int64_t>(threads, usable_cpus())), 1, usable_cpus());
    return Rates{bench::machine_ceilings(here), bench::measure_peaks(here, 1.0)};
  }
  if (Status same = check_machine(machine_facts(), *machine); !same.ok())
    return std::move(same).error().advise(
        "build the engine here to explain it; --compare sets its times beside the floors of this machine");
  PERI_ASSIGN(const Json* ceilings, proof.get("ceilings"));
  Rates rates;
  PERI_ASSIGN(rates.ceilings, bench::read_ceilings(*ceilings));
  if (const Json* peaks = proof.find("peaks")) {
    PERI_ASSIGN(rates.peaks, bench::read_peaks(*peaks));
  } else {  // a short build left them to who asks; it is the same machine
    rates.peaks = bench::measure_peaks(std::clamp(rates.ceilings.threads, 1, usable_cpus()), 1.0);
  }
  return rates;
}

struct Row {
  const Json* step = nullptr;
  tune::Evidence evidence;
  tune::RegionWork work;
  double floor = 0, sustained = 0;  // ms at the ceilings and at the peaks

  double share_of(double least) const { return evidence.time_ms > 0 ? least / evidence.time_ms : 0; }
};

struct Total {
  double ms = 0, floor = 0, sustained = 0;
};

Result<std::vector<Row>> rows_of(const Json& proof, const Rates& rates, Total* total) {
  std::vector<Row> rows;
  for (const Json& s : items(proof, "steps")) {
    Row r;
    r.step = &s;
    PERI_ASSIGN(const Json* evidence, s.get("evidence"));
    PERI_ASSIGN(const Json* work, s.get("work"));
    PERI_ASSIGN(r.evidence, tune::read_evidence(*evidence));
    PERI_ASSIGN(r.work, tune::read_work(*work));
    r.floor = rates.ceilings.floor_ms(r.work.least);
    r.sustained = bench::sustained_ms(rates.peaks, r.work.algorithm_flops, r.work.bytes);
    if (r.evidence.timed()) total->ms += r.evidence.time_ms;
    total->floor += r.floor;
    total->sustained += r.sustained;
    rows.push_back(std::move(r));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.evidence.time_ms != b.evidence.time_ms ? a.evidence.time_ms > b.evidence.time_ms : a.floor > b.floor;
  });
  return rows;
}

void print_row(const Page& page, const Row& r, double total, bool full) {
  const Json& s = *r.step;
  const bool timed = r.evidence.time_ms > 0;
  const std::string ms = timed ? format("%.4f", r.evidence.time_ms) : "-",
                    share = timed ? format("%.0f%%", 100 * r.share_of(r.sustained)) : "-";
  page.line("%9s %5.1f%% %9.4f %9.4f %6s %9.2f %9.2f  %s  [%s]", ms.c_str(),
            total > 0 && timed ? 100 * r.evidence.time_ms / total : 0, r.floor, r.sustained, share.c_str(),
            r.work.flops / 1e6, r.work.bytes / 1e6, word(s, "name").c_str(), word(s, "chosen").c_str());
  if (!r.evidence.untimed.empty()) page.line("            no time: %s", r.evidence.untimed.c_str());
  if (!full) return;
  page.line("            from %s", joined(s, "origins", 6).c_str());
  if (const std::string passes = joined(s, "touched_by", 12); !passes.empty())
    page.line("            passes %s", passes.c_str());
  for (const Json& o : items(s, "others")) {
    const Json* evidence = o.find("evidence");
    const auto known = evidence ? tune::read_evidence(*evidence) : Result<tune::Evidence>(tune::Evidence());
    const bool known_time = known.ok() && known->timed();
    page.line("            also %s: %s", word(o, "id").c_str(),
              known_time                              ? format("%.4f ms", known->time_ms).c_str()
              : known.ok() && !known->untimed.empty() ? known->untimed.c_str()
                                                      : "not measured");
  }
  for (const Json& o : items(s, "refusals"))
    page.line("            not %s: %s", word(o, "kernel").c_str(), word(o, "reason").c_str());
}

std::string explain_json(const std::string& path, const Json& proof, const Rates& rates, const std::vector<Row>& rows,
                         const Total& total) {
  const auto share = [](double least, double ms) { return ms > 0 ? least / ms : 0; };
  JsonWriter w;
  w.begin_object()
      .field("of", path)
      .field("times_are", tune::kTimeInWords)
      .field("total_ms", total.ms)
      .field("floor_ms", total.floor)
      .field("share_of_floor", share(total.floor, total.ms))
      .field("sustained_ms", total.sustained)
      .field("share_of_peak", share(total.sustained, total.ms));
  w.key("ceilings");
  bench::write_ceilings(w, rates.ceilings);
  w.key("peaks");
  bench::write_peaks(w, rates.peaks);
  w.key("layers").begin_array();
  for (const Row& r : rows)
    w.begin_object()
        .field("ms", r.evidence.time_ms)
        .field("floor_ms", r.floor)
        .field("share_of_floor", r.share_of(r.floor))
        .field("sustained_ms", r.sustained)
        .field("share_of_peak", r.share_of(r.sustained))
        .key("step")
        .value(*r.step)
        .end_object();
  w.end_array();
  for (const char* key : {"machine", "verification", "tuner", "passes", "tuned_for", "notes"})
    if (const Json* j = proof.find(key)) w.key(key).value(*j);
  w.end_object();
  return w.take();
}

void print_head(const Page& page, const Rates& rates, const std::string& whose) {
  const bench::Ceilings& c = rates.ceilings;
  const bench::Peaks& p = rates.peaks;
  const char* s = c.threads == 1 ? "" : "s";
  page.line("ceilings of %d thread%s%s: %.0f GFLOP/s at %.2f GHz (%s)", c.threads, s, whose.c_str(), c.gflops(false),
            c.clock_ghz, c.clock_from.c_str());
  if (!p.copy_gbs.empty())
    page.line("sustained: %.0f GFLOP/s, copies %.0f GB/s in cache, %.0f GB/s in memory", p.fma_gflops,
              p.copy_gbs.front().second, p.copy_gbs.back().second);
  page.line("ms: %s; floor: what no clock goes below; peak: at the sustained rates",
            std::string(tune::kTimeInWords).c_str());
  page.line("%9s %6s %9s %9s %6s %9s %9s  step [chosen]", "ms", "share", "floor ms", "peak ms", "of it", "MFLOP", "MB");
}

Result<Outcome> run(const Arguments& arguments) {
  const std::string path = arguments.positional[0];
  const bool compare = arguments.has("--compare");
  Progress progress(arguments.has("--quiet"));
  PERI_ASSIGN(const Json proof, proof_of(arguments, path, &progress));
  Total total;
  auto rates = rates_of(proof, compare);
  if (!rates.ok()) return std::move(rates).error().in_file(path);
  auto rows = rows_of(proof, *rates, &total);
  if (!rows.ok()) return std::move(rows).error().in_file(path);
  if (rows->empty()) return invalid("the proof has no steps").in_file(path);
  const Page page(arguments);
  PERI_ASSIGN(const int64_t top, arguments.number("--top", 1, 1000000, 20));
  print_head(page, *rates, compare ? " of this machine" : "");
  for (size_t k = 0; k < rows->size() && k < static_cast<size_t>(top); ++k)
    print_row(page, (*rows)[k], total.ms, arguments.has("--full"));
  if (rows->size() > static_cast<size_t>(top))
    page.line("and %zu more: --top N shows them, --full shows candidates and refusals",
              rows->size() - static_cast<size_t>(top));
  Outcome out;
  out.json = explain_json(path, proof, *rates, *rows, total);
  out.summary =
      total.ms > 0 ? format(
                         "%zu steps, %.3f ms measured, floor %.3f ms, %.3f ms at sustained rates: %.0f %% of them "
                         "reached",
                         rows->size(), total.ms, total.floor, total.sustained, 100 * total.sustained / total.ms)
                   : format("%zu steps, not measured (built with --no-tune), floor %.3f ms", rows->size(), total.floor);
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
                          {"--full", "", "", "also each step's nodes, passes, candidates and refusals"},
                          {"--compare", "", "", "an engine of another machine: its times beside this one's floors"}}),
    .details =
        "An engine is explained from the ENGINE.proof beside it, a model is built first. The floor of a step is "
        "the least\n"
        "time that the chosen algorithm's products and its arguments and results take at rates no clock exceeds; "
        "beside it\n"
        "stands its time at the rates this machine sustains. Both are those of the machine that built the engine; "
        "a proof\n"
        "of another one is refused without --compare.\n\n"
        "example:\n  peri explain models/digits_cnn.onnx --full",
    .run = run,
}};

}  // namespace peri::cli
