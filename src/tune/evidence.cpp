// The list of facts, and how each is written, read and checked.
#include "tune/evidence.hpp"

#include <cmath>

namespace peri::tune {

namespace {
// Every fact with its name in JSON: the one place that lists them.
template <class Fact>
void each_fact(Fact&& fact) {
  fact("time_ms", &Evidence::time_ms);
  fact("statistic", &Evidence::statistic);
  fact("samples", &Evidence::samples);
  fact("visits", &Evidence::visits);
  fact("clock_mhz", &Evidence::clock_mhz);
  fact("spread", &Evidence::spread);
  fact("workspace_bytes", &Evidence::workspace_bytes);
  fact("floor_ms", &Evidence::floor_ms);
  fact("untimed", &Evidence::untimed);
  fact("max_error", &Evidence::max_error);
  fact("rejected", &Evidence::rejected);
  fact("compared_with", &Evidence::compared_with);
  fact("runs", &Evidence::runs);
  fact("shared_runs", &Evidence::shared_runs);
  fact("positions", &Evidence::positions);
  fact("since", &Evidence::since);
  fact("shapes", &Evidence::shapes);
  fact("skipped", &Evidence::skipped);
}

Result<double> read_fact(const Json& j, const char* name, double silent) { return j.get_double(name, silent); }
Result<int64_t> read_fact(const Json& j, const char* name, int64_t silent) { return j.get_int(name, silent); }
Result<std::string> read_fact(const Json& j, const char* name, const std::string& silent) {
  PERI_ASSIGN(const std::string_view text, j.get_string(name, silent));
  return std::string(text);
}
}  // namespace

void write_evidence(JsonWriter& w, const Evidence& evidence) {
  const Evidence silent;
  w.begin_object();
  each_fact([&](const char* name, auto fact) {
    if (evidence.*fact != silent.*fact) w.field(name, evidence.*fact);
  });
  w.end_object();
}

std::string evidence_text(const Evidence& evidence) {
  JsonWriter w;
  write_evidence(w, evidence);
  return w.take();
}

Result<Evidence> read_evidence(const Json& json) {
  Evidence e;
  Status read = Ok{};
  if (auto object = json.as_object(); !object.ok()) return std::move(object).error();
  each_fact([&](const char* name, auto fact) {
    auto found = read_fact(json, name, e.*fact);
    if (found.ok())
      e.*fact = std::move(*found);
    else if (read.ok())
      read = std::move(found).error();
  });
  PERI_TRY(read);
  PERI_TRY(check_evidence(e));
  return e;
}

Result<Evidence> read_evidence(std::string_view text) {
  PERI_ASSIGN(const Json json, parse_json(text));
  return read_evidence(json);
}

Status check_evidence(const Evidence& e) {
  const auto known = [](double v) { return std::isfinite(v) && (v >= 0 || v == -1); };
  if (!known(e.time_ms)) return invalid("a time of %g ms", e.time_ms);
  if (!known(e.spread)) return invalid("a spread of %g", e.spread);
  if (!known(e.floor_ms)) return invalid("a floor of %g ms", e.floor_ms);
  if (!known(e.max_error)) return invalid("an error of %g of the bound", e.max_error);
  if (e.right() && e.max_error > 1) return invalid("a right answer whose error is %g of the bound", e.max_error);
  if (e.timed() == e.statistic.empty()) return invalid("a time without its statistic, or a statistic of no time");
  if (e.workspace_bytes < -1) return invalid("a workspace of %lld bytes", static_cast<long long>(e.workspace_bytes));
  for (const int64_t n :
       {e.samples, e.visits, e.clock_mhz, e.runs, e.shared_runs, e.positions, e.since, e.shapes, e.skipped})
    if (n < 0) return invalid("a negative count in the evidence");
  return Ok{};
}

}  // namespace peri::tune
