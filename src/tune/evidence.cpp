// How each fact is written, read and checked.
#include "tune/evidence.hpp"

#include <cmath>

namespace peri::tune {

namespace {
template <class Fact>
void each_fact(Fact&& fact) {
#define PERI_FACT(type, name, unknown, may) fact(#name, &Evidence::name);
#include "tune/evidence.def"
#undef PERI_FACT
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

namespace {
// What a fact may be, as evidence.def says it; the text names the fact where it is something else.
Status any(const char*, const std::string&) { return Ok{}; }
Status count(const char* name, int64_t v) {
  return v >= 0 ? Status(Ok{}) : invalid("%s of %lld", name, static_cast<long long>(v)).expecting("a count");
}
Status size(const char* name, int64_t v) {
  return v >= -1 ? Status(Ok{}) : invalid("%s of %lld", name, static_cast<long long>(v)).expecting("a size, or -1");
}
Status ratio(const char* name, double v) {
  return std::isfinite(v) && (v >= 0 || v == -1) ? Status(Ok{})
                                                 : invalid("%s of %g", name, v).expecting("a number from 0, or -1");
}
}  // namespace

Status check_evidence(const Evidence& e) {
#define PERI_FACT(type, name, unknown, may) PERI_TRY(may(#name, e.name));
#include "tune/evidence.def"
#undef PERI_FACT
  if (e.right() && e.max_error > 1) return invalid("a right answer whose error is %g of the bound", e.max_error);
  if (e.timed() == e.statistic.empty()) return invalid("a time without its statistic, or a statistic of no time");
  return Ok{};
}

}  // namespace peri::tune
