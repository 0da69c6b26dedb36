// peri compare: whether one measurement of peri bench is significantly slower than another.
#include "bench/compare.hpp"
#include "base/json.hpp"
#include "base/shell_word.hpp"
#include "cli/console/page.hpp"
#include "cli/console/piped.hpp"
#include "plan/engine_file.hpp"

namespace peri::cli {
namespace {

Result<bench::Record> read(const std::string& path) {
  PERI_ASSIGN(const std::string text, read_file_or_pipe(path, size_t{512} << 20));
  const auto binary = [&](const char* what) {
    return invalid("not a measurement")
        .in_file(path)
        .expecting("the result of a peri bench")
        .but_found(what)
        .advise("measure it first: peri bench " + shell_word(path) + " --json FILE");
  };
  if (plan::kEngineFile.begins(text)) return binary("an engine");
  if (text.find('\0') != text.npos) return binary("a file that is no text");
  auto record = bench::read_record(text);
  if (!record.ok())
    return std::move(record).error().in_file(path).advise("write it with: peri bench MODEL --json FILE");
  record->file = path;
  return record;
}

void show(const Page& page, const std::string& path, const bench::Record& r) {
  const stats::Interval i = stats::block_interval(r.per_process());
  page.line("%10.4g ms [%.4g, %.4g]  %6zu samples  %3zu process%s  %s", r.median_ms(), i.low, i.high, r.samples(),
            r.processes.size(), r.processes.size() == 1 ? "  " : "es", path.c_str());
  if (!r.unstable.empty()) page.line("            not stable: %s", r.unstable.c_str());
  for (const std::string& why : r.disturbed) page.line("            in the way: %s", why.c_str());
}

std::string dims_text(const DimBinding& dims) {
  std::string out;
  for (const auto& [name, size] : dims) out += (out.empty() ? "" : ",") + name + "=" + std::to_string(size);
  return out.empty() ? "" : " at " + out;
}

Result<Outcome> run(const Arguments& arguments) {
  PERI_ASSIGN(const double limit, arguments.real("--limit", 1, 1e6, 1.03));
  const std::string &was = arguments.positional[0], &is = arguments.positional[1];
  PERI_ASSIGN(const bench::Record before, read(was));
  PERI_ASSIGN(const bench::Record after, read(is));
  PERI_ASSIGN(const bench::Comparison c, bench::compare(before, after, limit));
  const Page page(arguments);
  show(page, was, before);
  show(page, is, after);
  Outcome out;
  out.json = bench::comparison_json(c, before, was, after, is, limit);
  out.summary = before.model + dims_text(before.dims) + format(": %.3f", c.ratio);
  if (!c.enough) {
    out.code = exit_code(ErrorKind::kUnstable);
    out.summary += " of before; no verdict from so few processes: " + bench::advice_for_verdict();
    return out;
  }
  out.code = c.regression ? exit_code(ErrorKind::kRegression) : 0;
  out.summary +=
      format(" [%.3f, %.3f] of before, p = %.2g: %s", c.interval.low, c.interval.high, c.p, c.verdict().c_str());
  if (c.regression) out.summary += format(" by more than %.3g allows", limit);
  return out;
}
}  // namespace

extern const Entry compare_entry;
const Entry compare_entry{{
    .name = "compare",
    .summary = "test whether one measurement is significantly slower than another",
    .positional = "BEFORE.json AFTER.json",
    .min_positional = 2,
    .max_positional = 2,
    .flags = {{"--limit", "", "RATIO",
               "exit code 4 if AFTER takes significantly more than RATIO times BEFORE (default 1.03)"}},
    .details =
        "Both are what peri bench --repeat N --json wrote for the same model, sizes and threads. Processes differ by "
        "more than\n"
        "the samples of one tell, so the ratio has a bootstrap interval at 95 % over whole processes, and a difference "
        "is told\n"
        "where it excludes 1 and fewer than 1 % of all ways to share the processes out put the two as far apart. With "
        "fewer\n"
        "than 5 processes on a side there is no verdict: exit code 5.\n\n"
        "example:\n  peri compare build/before.json build/after.json --limit 1.05",
    .run = run,
}};

}  // namespace peri::cli
