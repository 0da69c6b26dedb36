// Blocks are processes.
#include "bench/compare.hpp"

namespace peri::bench {

namespace {
constexpr size_t kMinSamples = 5;  // of a process

std::string dims_text(const DimBinding& dims) {
  std::string out;
  for (const auto& [name, size] : dims) out += (out.empty() ? "" : ",") + name + "=" + std::to_string(size);
  return out;
}

Status differ(const char* what, const std::string& before, const std::string& after) {
  if (before == after) return Ok{};
  return usage("the two measured different work: another %s", what).expecting(before).but_found(after);
}

Status same_work(const Record& before, const Record& after) {
  for (const Record* r : {&before, &after})
    if (r->identity.empty())
      return usage("the measured engine of '%s' states no model it was made of", r->model.c_str())
          .advise("build it with this version of peri, and measure again");
  if (before.identity != after.identity)
    return usage("the two measured different work: another model")
        .expecting("'" + before.model + "' of identity " + before.identity)
        .but_found("'" + after.model + "' of identity " + after.identity);
  PERI_TRY(differ("size", dims_text(before.dims), dims_text(after.dims)));
  return differ("number of threads", std::to_string(before.threads), std::to_string(after.threads));
}

Status whole(const Record& r) {
  if (r.interrupted)
    return usage("a measurement was interrupted, and is no base of a comparison").advise("measure again");
  for (const ProcessRecord& p : r.processes)
    if (p.samples_ms.size() < kMinSamples)
      return usage("too few samples to compare")
          .expecting(format("at least %zu of each process", kMinSamples))
          .but_found(std::to_string(p.samples_ms.size()));
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
