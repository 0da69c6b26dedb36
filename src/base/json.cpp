// The JSON value and its typed getters.
#include "base/json.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/fault.hpp"

namespace peri {

namespace {
constexpr size_t kIndexFrom = 9;  // below, a linear search is as quick and needs no memory

// Positions of `members` by key. A key that occurs twice is named in `twice`.
std::vector<uint32_t> order_by_key(const Json::Object& members, std::optional<std::string_view>& twice) {
  std::vector<uint32_t> order(members.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto key = [&](uint32_t i) -> std::string_view { return members[i].key; };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  for (size_t i = 1; i < order.size(); ++i)
    if (key(order[i - 1]) == key(order[i])) twice = key(order[i]);
  return order;
}
}  // namespace

Json::Json(Array v) : v_(std::make_unique<Array>(std::move(v))) {}
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

Result<Json> Json::object(Object members) {
  std::optional<std::string_view> twice;
  auto table = std::make_unique<Table>();
  table->by_key = order_by_key(members, twice);
  if (twice) return invalid("duplicate key in JSON object").at_node(twice->substr(0, 100));
  if (members.size() < kIndexFrom) table->by_key = {};
  table->members = std::move(members);
  Json out;
  out.v_ = std::move(table);
  return out;
}

Json::Kind Json::kind() const { return static_cast<Kind>(v_.index()); }

std::string_view Json::kind_name() const {
  switch (kind()) {
    case Kind::kNull: return "null";
    case Kind::kBool: return "boolean";
    case Kind::kInt:
    case Kind::kUint:
    case Kind::kDouble: return "number";
    case Kind::kString: return "string";
    case Kind::kArray: return "array";
    case Kind::kObject: return "object";
  }
  return "null";
}

namespace {
Error wrong_kind(const Json& v, const char* wanted) {
  return invalid("wrong kind of value").expecting(wanted).but_found(v.kind_name());
}
constexpr double kTwo63 = 9223372036854775808.0;
}  // namespace

Result<bool> Json::as_bool() const {
  if (const bool* b = std::get_if<bool>(&v_)) return *b;
  return wrong_kind(*this, "boolean");
}

Result<int64_t> Json::as_int() const {
  if (const int64_t* i = std::get_if<int64_t>(&v_)) return *i;
  if (const uint64_t* u = std::get_if<uint64_t>(&v_))
    return invalid("integer out of range").expecting("an int64").but_found(std::to_string(*u));
  if (const double* d = std::get_if<double>(&v_)) {
    if (*d == std::floor(*d) && *d > -kTwo63 && *d < kTwo63) return static_cast<int64_t>(*d);
    return invalid("wrong number").expecting("an integer within int64").but_found(format("%.17g", *d));
  }
  return wrong_kind(*this, "integer");
}

Result<uint64_t> Json::as_uint() const {
  if (const uint64_t* u = std::get_if<uint64_t>(&v_)) return *u;
  if (const double* d = std::get_if<double>(&v_)) {
    if (*d == std::floor(*d) && *d >= 0 && *d < 2 * kTwo63) return static_cast<uint64_t>(*d);
    return invalid("wrong number").expecting("an integer within uint64").but_found(format("%.17g", *d));
  }
  PERI_ASSIGN(const int64_t i, as_int());
  if (i < 0) return invalid("wrong number").expecting("an integer >= 0").but_found(std::to_string(i));
  return static_cast<uint64_t>(i);
}

Result<double> Json::as_double() const {
  if (const double* d = std::get_if<double>(&v_)) return *d;
  if (const int64_t* i = std::get_if<int64_t>(&v_)) return static_cast<double>(*i);
  if (const uint64_t* u = std::get_if<uint64_t>(&v_)) return static_cast<double>(*u);
  return wrong_kind(*this, "number");
}

Result<std::string_view> Json::as_string() const {
  if (const auto* s = std::get_if<std::unique_ptr<std::string>>(&v_)) return std::string_view(**s);
  return wrong_kind(*this, "string");
}

Result<const Json::Array*> Json::as_array() const {
  if (const auto* a = std::get_if<std::unique_ptr<Array>>(&v_)) return static_cast<const Array*>(a->get());
  return wrong_kind(*this, "array");
}

Result<const Json::Object*> Json::as_object() const {
  if (is_object()) return &members();
  return wrong_kind(*this, "object");
}

const Json::Array& Json::items() const {
  static const Array none;
  const auto* a = std::get_if<std::unique_ptr<Array>>(&v_);
  return a ? **a : none;
}

const Json::Object& Json::members() const {
  static const Object none;
  const auto* t = std::get_if<std::unique_ptr<Table>>(&v_);
  return t ? (*t)->members : none;
}

const Json* Json::find(std::string_view key) const {
  const auto* held = std::get_if<std::unique_ptr<Table>>(&v_);
  if (!held) return nullptr;
  const Table& t = **held;
  if (t.by_key.empty()) {
    for (const Member& m : t.members)
      if (m.key == key) return &m.value;
    return nullptr;
  }
  const auto at = std::lower_bound(t.by_key.begin(), t.by_key.end(), key,
                                   [&](uint32_t i, std::string_view k) { return t.members[i].key < k; });
  return at != t.by_key.end() && t.members[*at].key == key ? &t.members[*at].value : nullptr;
}

Result<const Json*> Json::get(std::string_view key) const {
  if (!is_object()) return wrong_kind(*this, "object").at_node(key);
  if (const Json* v = find(key)) return v;
  return invalid("member is missing").at_node(key);
}

namespace {
template <class T>
Result<T> named(Result<T> r, std::string_view key) {
  if (r.ok()) return r;
  return std::move(r).error().at_node(key);
}
// The member, or nullptr if absent or null.
Result<const Json*> present(const Json& object, std::string_view key) {
  if (!object.is_object()) return wrong_kind(object, "object").at_node(key);
  const Json* v = object.find(key);
  return v && !v->is_null() ? v : nullptr;
}
}  // namespace

#define PERI_JSON_GET(name, convert, type)              \
  Result<type> Json::name(std::string_view key) const { \
    PERI_ASSIGN(const Json* v, get(key));               \
    return named(v->convert(), key);                    \
  }
#define PERI_JSON_GET_OR(name, convert, type)                          \
  Result<type> Json::name(std::string_view key, type fallback) const { \
    PERI_ASSIGN(const Json* v, present(*this, key));                   \
    if (!v) return fallback;                                           \
    return named(v->convert(), key);                                   \
  }
PERI_JSON_GET(get_bool, as_bool, bool)
PERI_JSON_GET(get_int, as_int, int64_t)
PERI_JSON_GET(get_uint, as_uint, uint64_t)
PERI_JSON_GET(get_double, as_double, double)
PERI_JSON_GET(get_string, as_string, std::string_view)
PERI_JSON_GET(get_array, as_array, const Json::Array*)
PERI_JSON_GET(get_object, as_object, const Json::Object*)
PERI_JSON_GET_OR(get_bool, as_bool, bool)
PERI_JSON_GET_OR(get_int, as_int, int64_t)
PERI_JSON_GET_OR(get_double, as_double, double)
PERI_JSON_GET_OR(get_string, as_string, std::string_view)
#undef PERI_JSON_GET
#undef PERI_JSON_GET_OR

}  // namespace peri
