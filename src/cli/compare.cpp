// peri compare: whether one measurement is slower than another by more than chance, from the samples that peri bench
// wrote.
#include <charconv>

#include "base/file.hpp"
#include "base/json.hpp"
#include "cli/console/page.hpp"
#include "stats/stats.hpp"

namespace peri::cli {
namespace {
constexpr double kChance = 0.01;  // of samples this different from one distribution: above it nothing is told

struct Measured {
  std::string path, model, dims;
  int64_t threads = 0;
  std::vector<double> samples;
};

Result<Measured> parse(const std::string& text) {
  PERI_ASSIGN(const Json json, parse_json(text));
  Measured m;
  PERI_ASSIGN(const std::string_view model, json.get_string("model"));
  m.model = model;
  PERI_ASSIGN(m.threads, json.get_int("threads"));
  PERI_ASSIGN(const Json::Object* dims, json.get_object("dims"));
  for (const Json::Member& d : *dims) {
    PERI_ASSIGN(const int64_t size, d.value.as_int());
    m.dims += (m.dims.empty() ? "" : ",") + d.key + "=" + std::to_string(size);
  }
  PERI_ASSIGN(const Json::Array* samples, json.get_array("samples"));
  for (const Json& s : *samples) {
    PERI_ASSIGN(const double ms, s.as_double());
    if (!(ms > 0)) return invalid("a sample of %g ms", ms);
    m.samples.push_back(ms);
  }
  if (m.samples.size() < 5)
    return invalid("too few samples to compare").expecting("at least 5").but_found(std::to_string(m.samples.size()));
  return m;
}

Result<Measured> read(const std::string& path) {
  PERI_ASSIGN(const std::string text, read_file(path, size_t{256} << 20));
  auto made = parse(text);
  if (!made.ok()) return std::move(made).error().in_file(path).advise("write it with: peri bench MODEL --json FILE");
  made->path = path;
  return made;
}

Status same_work(const Measured& a, const Measured& b) {
  const auto differ = [&](const char* what, const std::string& x, const std::string& y) -> Status {
    if (x == y) return Ok{};
    return usage("the two measured different work: another %s", what).expecting(x).but_found(y);
  };
  PERI_TRY(differ("model", a.model, b.model));
  PERI_TRY(differ("size", a.dims, b.dims));
  return differ("number of threads", std::to_string(a.threads), std::to_string(b.threads));
}

Result<double> limit_of(const Arguments& arguments) {
  const std::string text = arguments.get("--limit", "1.03");
  double limit = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (code != std::errc() || end != text.data() + text.size() || !(limit >= 1))
    return usage("--limit is not a ratio").expecting("a number from 1").but_found(text);
  return limit;
}

void write(JsonWriter& w, const char* key, const Measured& m) {
  const stats::Interval i = stats::median_interval(m.samples);
  w.key(key).begin_object().field("file", m.path).field("median_ms", stats::median(m.samples));
  w.key("interval").begin_array().value(i.low).value(i.high).end_array();
  w.field("samples", static_cast<int64_t>(m.samples.size())).end_object();
}

Result<Outcome> run(const Arguments& arguments) {
  PERI_ASSIGN(const double limit, limit_of(arguments));
  PERI_ASSIGN(const Measured before, read(arguments.positional[0]));
  PERI_ASSIGN(const Measured after, read(arguments.positional[1]));
  PERI_TRY(same_work(before, after));
  const double ratio = stats::median(after.samples) / stats::median(before.samples);
  const stats::Interval interval = stats::ratio_interval(before.samples, after.samples);
  const double p = stats::mann_whitney_p(before.samples, after.samples);
  const bool told = p < kChance;
  const bool regression = told && interval.low > limit;
  const char* verdict = told && interval.low > 1    ? "slower"
                        : told && interval.high < 1 ? "faster"
                                                    : "no difference told";
  const Page page(arguments);
  for (const Measured* m : {&before, &after}) {
    const stats::Interval i = stats::median_interval(m->samples);
    page.line("%10.4f ms [%.4f, %.4f]  %6zu samples  %s", stats::median(m->samples), i.low, i.high, m->samples.size(),
              m->path.c_str());
  }
  JsonWriter w;
  w.begin_object().field("model", before.model);
  write(w, "before", before);
  write(w, "after", after);
  w.field("ratio", ratio).key("interval").begin_array().value(interval.low).value(interval.high).end_array();
  w.field("p", p).field("limit", limit).field("verdict", verdict).field("regression", regression).end_object();
  Outcome out;
  out.json = w.take();
  out.code = regression ? exit_code(ErrorKind::kRegression) : 0;
  out.summary = format("%s at %s: %.3f [%.3f, %.3f] of before, p = %.2g: %s", before.model.c_str(), before.dims.c_str(),
                       ratio, interval.low, interval.high, p, verdict);
  if (regression) out.summary += format(" by more than %.3g allows", limit);
  return out;
}
}  // namespace

extern const Entry compare_entry;
const Entry compare_entry{{
    .name = "compare",
    .summary = "whether one measurement is slower than another by more than chance",
    .positional = "BEFORE.json AFTER.json",
    .min_positional = 2,
    .max_positional = 2,
    .flags = {{"--limit", "", "RATIO",
               "exit code 4 where AFTER surely takes more than RATIO of BEFORE (default 1.03)"}},
    .details =
        "Both are what peri bench --json wrote for the same model, sizes and threads. The ratio of the medians has a "
        "bootstrap\n"
        "interval at 95 %; a difference is told where it excludes 1 and the rank-sum test of Mann and Whitney gives p "
        "< 0.01.\n"
        "Both speak of these two processes: measure in turns, more than once, before you believe a few percent.\n\n"
        "example:\n  peri compare build/before.json build/after.json --limit 1.05",
    .run = run,
}};

}  // namespace peri::cli
