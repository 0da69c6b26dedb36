// One JSON object; it can only express what is_lasting() requires.
#include "judge/kept.hpp"

#include <cmath>

#include "base/clock.hpp"

namespace peri::judge {

namespace {
bool within_bounds(const SizeEvidence& e) {
  return e.same_bits && e.worst_step >= 0 && e.worst_step <= 1 && (e.whole == -1 || (e.whole >= 0 && e.whole <= 1)) &&
         e.nan >= 0 && e.nan <= e.nan_elements && e.overflowed >= 0 && e.integers >= -1 && e.integers <= 1 &&
         e.steps_judged >= 0 && e.steps_by_definition >= 0 && e.positions >= 0;
}
}  // namespace

bool is_lasting(const EngineVerdict& v) {
  if (!v.right() || !v.lasting || v.sizes.empty() || !v.sizes[0].limit.empty()) return false;
  for (const SizeEvidence& e : v.sizes)
    if (e.no_memory || (e.limit.empty() && !within_bounds(e))) return false;
  return v.since > 0 && std::isfinite(v.seconds) && v.seconds >= 0;
}

std::string verdict_text(const EngineVerdict& v) {
  PERI_CHECK(is_lasting(v), "the verdict is worth keeping");
  JsonWriter w;
  w.begin_object().field("since", v.since).field("seconds", v.seconds).field("incomplete", v.incomplete);
  w.key("sizes").begin_array();
  for (const SizeEvidence& e : v.sizes) {
    w.begin_object().key("dims").begin_array();
    for (const auto& [name, value] : e.sizes) w.begin_array().value(name).value(value).end_array();
    w.end_array()
        .field("limit", e.limit)
        .field("integers", e.integers)
        .field("others", e.others)
        .field("nan_of", e.nan_of)
        .field("nan", e.nan)
        .field("nan_elements", e.nan_elements)
        .field("overflow", e.overflow)
        .field("overflowed", e.overflowed)
        .field("steps_judged", e.steps_judged)
        .field("steps_by_definition", e.steps_by_definition)
        .field("positions", e.positions)
        .field("worst_step", e.worst_step)
        .field("same_bits", e.same_bits)
        .field("whole", e.whole)
        .field("followed", e.followed)
        .field("whole_because", e.whole_because)
        .end_object();
  }
  w.end_array().end_object();
  return w.take();
}

namespace {
Result<DimBinding> read_dims(const Json& json) {
  DimBinding out;
  PERI_ASSIGN(const Json::Array* const list, json.get_array("dims"));
  for (const Json& one : *list) {
    PERI_ASSIGN(const Json::Array* const pair, one.as_array());
    if (pair->size() != 2) return invalid("a dimension is a name and a number");
    PERI_ASSIGN(const std::string_view name, (*pair)[0].as_string());
    PERI_ASSIGN(const int64_t value, (*pair)[1].as_int());
    if (value < 0 || !out.emplace(name, value).second) return invalid("no size of a dimension");
  }
  return out;
}

Result<SizeEvidence> read_size(const Json& json) {
  SizeEvidence e;
  PERI_ASSIGN(e.sizes, read_dims(json));
  PERI_ASSIGN(const std::string_view limit, json.get_string("limit"));
  PERI_ASSIGN(e.integers, json.get_int("integers"));
  PERI_ASSIGN(const std::string_view others, json.get_string("others"));
  PERI_ASSIGN(const std::string_view nan_of, json.get_string("nan_of"));
  PERI_ASSIGN(e.nan, json.get_int("nan"));
  PERI_ASSIGN(e.nan_elements, json.get_int("nan_elements"));
  PERI_ASSIGN(const std::string_view overflow, json.get_string("overflow"));
  PERI_ASSIGN(e.overflowed, json.get_int("overflowed"));
  PERI_ASSIGN(e.steps_judged, json.get_int("steps_judged"));
  PERI_ASSIGN(e.steps_by_definition, json.get_int("steps_by_definition"));
  PERI_ASSIGN(e.positions, json.get_int("positions"));
  PERI_ASSIGN(e.worst_step, json.get_double("worst_step"));
  PERI_ASSIGN(e.same_bits, json.get_bool("same_bits"));
  PERI_ASSIGN(e.whole, json.get_double("whole"));
  PERI_ASSIGN(e.followed, json.get_int("followed"));
  PERI_ASSIGN(const std::string_view because, json.get_string("whole_because"));
  e.limit = limit;
  e.others = others;
  e.nan_of = nan_of;
  e.overflow = overflow;
  e.whole_because = because;
  return e;
}
}  // namespace

Result<EngineVerdict> read_verdict(const Json& json) {
  EngineVerdict v;
  PERI_ASSIGN(v.since, json.get_int("since"));
  PERI_ASSIGN(v.seconds, json.get_double("seconds"));
  PERI_ASSIGN(const std::string_view incomplete, json.get_string("incomplete"));
  PERI_ASSIGN(const Json::Array* const sizes, json.get_array("sizes"));
  for (const Json& one : *sizes) {
    PERI_ASSIGN(v.sizes.emplace_back(), read_size(one));
  }
  v.incomplete = incomplete;
  v.earlier = true;
  if (!is_lasting(v) || v.since > wall_seconds()) return invalid("no verdict that is kept");
  return v;
}

}  // namespace peri::judge
