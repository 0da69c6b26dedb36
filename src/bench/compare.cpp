// The blocks of the bootstrap are processes.
#include "bench/compare.hpp"

namespace peri::bench {

namespace {
constexpr size_t kMinSamples = 5;  // of a process

std::string dims_text(const DimBinding& dims) {
  std::string out;
  for (const auto& [name, size] : dims) out += (out.empty() ? "" : ",") + name + "=" + std::to_string(size);
  return out;
}

// "batch=1 (before.json)"; the file where it is known.
std::string of(const std::string& what, const Record& r) {
  return (what.empty() ? "none" : what) + (r.file.empty() ? "" : " (" + r.file + ")");
}

Status differ(const char* what, const std::string& was, const Record& before, const std::string& is,
              const Record& after, const char* remedy) {
  if (was == is) return Ok{};
  return usage("the two measured different work: another %s", what)
      .in_file(after.file)
      .expecting(of(was, before))
      .but_found(of(is, after))
      .advise(remedy);
}

Status same_work(const Record& before, const Record& after) {
  for (const Record* r : {&before, &after})
    if (r->identity.empty())
      return usage("the measured engine of '%s' does not say which model it was made from", r->model.c_str())
          .in_file(r->file)
          .advise("build it with this version of peri, and measure again");
  const auto model = [](const Record& r) { return "'" + r.model + "' of identity " + r.identity; };
  if (before.identity != after.identity)
    PERI_TRY(differ("model", model(before), before, model(after), after, "measure the same model both times"));
  PERI_TRY(differ("size", dims_text(before.dims), before, dims_text(after.dims), after,
                  "measure both at one size: peri bench MODEL --dims NAME=N"));
  return differ("number of threads", std::to_string(before.threads), before, std::to_string(after.threads), after,
                "measure both with one number of threads: peri bench MODEL --threads N");
}

Status whole(const Record& r) {
  if (r.interrupted)
    return usage("the measurement was interrupted: it cannot be compared").in_file(r.file).advise("measure again");
  for (const ProcessRecord& p : r.processes)
    if (p.samples_ms.size() < kMinSamples)
      return usage("too few samples to compare")
          .in_file(r.file)
          .expecting(format("at least %zu of each process", kMinSamples))
          .but_found(std::to_string(p.samples_ms.size()))
          .advise("measure longer: peri bench MODEL --seconds N");
  return Ok{};
}
}  // namespace

std::string Comparison::verdict() const {
  return !enough ? "no verdict" : slower ? "slower" : faster ? "faster" : "no difference told";
}

std::string advice_for_verdict() { return format("measure both with peri bench --repeat %zu or more", kMinProcesses); }

namespace {
void write_side(JsonWriter& w, const char* key, const std::string& file, const Record& r) {
  const stats::Interval i = stats::block_interval(r.per_process());
  w.key(key).begin_object().field("file", file).field("median_ms", r.median_ms());
  w.key("interval").begin_array().value(i.low).value(i.high).end_array();
  w.field("samples", static_cast<int64_t>(r.samples())).field("processes", static_cast<int64_t>(r.processes.size()));
  w.field("unstable", r.unstable);
  w.key("disturbed").begin_array();
  for (const std::string& why : r.disturbed) w.value(why);
  w.end_array().end_object();
}
}  // namespace

std::string comparison_json(const Comparison& c, const Record& before, const std::string& before_file,
                            const Record& after, const std::string& after_file, double limit) {
  JsonWriter w;
  w.begin_object().field("model", before.model).field("identity", before.identity);
  write_side(w, "before", before_file, before);
  write_side(w, "after", after_file, after);
  w.field("ratio", c.ratio).key("interval").begin_array().value(c.interval.low).value(c.interval.high).end_array();
  w.field("p", c.p).field("limit", limit).field("verdict", c.verdict()).field("regression", c.regression).end_object();
  return w.take();
}

Result<Comparison> compare(const Record& before, const Record& after, double limit) {
  PERI_TRY(same_work(before, after));
  for (const Record* r : {&before, &after}) PERI_TRY(whole(*r));
  const auto a = before.per_process(), b = after.per_process();
  Comparison c;
  c.ratio = stats::block_center(b) / stats::block_center(a);
  c.interval = stats::block_ratio_interval(a, b);
  std::vector<double> was, is;
  for (const auto& samples : a) was.push_back(stats::median(samples));
  for (const auto& samples : b) is.push_back(stats::median(samples));
  c.p = stats::permutation_p(was, is);
  c.enough = a.size() >= kMinProcesses && b.size() >= kMinProcesses;
  const bool told = c.enough && c.p < kChance;
  c.slower = told && c.interval.low > 1;
  c.faster = told && c.interval.high < 1;
  c.regression = c.slower && c.interval.low > limit;
  return c;
}

}  // namespace peri::bench
