// The JSON value, its typed getters, and reading: nlohmann's event parser behind our limits. The only file that
// includes it.
#include "base/json.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
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
  return invalid("wrong kind of JSON value").expecting(wanted).but_found(v.kind_name());
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
    if (*d == std::floor(*d) && *d >= -kTwo63 && *d < kTwo63) return static_cast<int64_t>(*d);
    return invalid("wrong number").expecting("an integer within int64").but_found(format("%.17g", *d));
  }
  return wrong_kind(*this, "integer");
}

Result<uint64_t> Json::as_uint() const {
  if (const uint64_t* u = std::get_if<uint64_t>(&v_)) return *u;
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

namespace {

// Walks the text and tells how far the parser has read, so that an event can be placed.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  Cursor& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  Cursor operator++(int) {
    Cursor before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const Cursor& a, const Cursor& b) { return a.at_ == b.at_; }
  friend bool operator!=(const Cursor& a, const Cursor& b) { return !(a == b); }

 private:
  const char* at_;
  const char** reached_;
};

using Text = nlohmann::json;

// nlohmann's events → ours, with depth and node limits; `error` is set when it returns false.
class Bridge : public nlohmann::json_sax<Text> {
 public:
  Bridge(const JsonLimits& limits, JsonEvents& events) : limits_(limits), events_(events) {}
  std::optional<Error> error;

  bool null() override { return scalar(Json()); }
  bool boolean(bool v) override { return scalar(Json(v)); }
  bool number_integer(number_integer_t v) override { return scalar(Json(static_cast<int64_t>(v))); }
  bool number_unsigned(number_unsigned_t v) override {
    const uint64_t u = v;
    return scalar(u <= static_cast<uint64_t>(INT64_MAX) ? Json(static_cast<int64_t>(u)) : Json(u));
  }
  bool number_float(number_float_t v, const string_t&) override {
    if (!std::isfinite(v)) return fail(invalid("number is out of range"));
    return scalar(Json(static_cast<double>(v)));
  }
  bool string(string_t& v) override { return scalar(Json(std::move(v))); }
  bool binary(binary_t&) override { return fail(internal_error("binary value in JSON text")); }
  bool start_object(std::size_t) override { return begin(true); }
  bool start_array(std::size_t) override { return begin(false); }
  bool key(string_t& v) override { return take(events_.on_key(std::move(v))); }
  bool end_object() override { return end(true); }
  bool end_array() override { return end(false); }
  bool parse_error(std::size_t, const std::string& last, const nlohmann::detail::exception& e) override {
    std::string found = last.substr(0, 40);
    for (char& c : found)
      if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
    Error out = e.id == 406 ? invalid("number is out of range") : invalid("not valid JSON");
    return fail(std::move(out).but_found("near \"" + found + "\""));
  }

 private:
  bool fail(Error e) {
    if (!error) error = std::move(e);
    return false;
  }
  bool take(Status s) { return s.ok() || fail(std::move(s).error()); }
  bool count() {
    if (++nodes_ <= limits_.max_nodes) return true;
    return fail(Error(ErrorKind::kMemory, format("JSON has more than %zu values", limits_.max_nodes)));
  }
  bool scalar(Json v) { return count() && take(events_.on_scalar(std::move(v))); }
  bool begin(bool object) {
    if (++depth_ > limits_.max_depth) return fail(invalid("JSON nests deeper than %d", limits_.max_depth));
    return count() && take(events_.on_begin(object));
  }
  bool end(bool object) {
    --depth_;
    return take(events_.on_end(object));
  }

  const JsonLimits& limits_;
  JsonEvents& events_;
  size_t nodes_ = 0;
  int depth_ = 0;
};

// Builds the tree. A container is filled on a stack of open ones and moved into its parent when it ends.
class TreeBuilder : public JsonEvents {
 public:
  Json root;

  Status on_scalar(Json value) override { return add(std::move(value)); }
  Status on_key(std::string key) override {
    open_.back().members.push_back({std::move(key), Json()});
    return Ok{};
  }
  Status on_begin(bool) override {
    open_.emplace_back();
    return Ok{};
  }
  Status on_end(bool object) override {
    Open done = std::move(open_.back());
    open_.pop_back();
    if (!object) return add(Json(std::move(done.items)));
    PERI_ASSIGN(Json value, Json::object(std::move(done.members)));
    return add(std::move(value));
  }

 private:
  struct Open {
    Json::Array items;
    Json::Object members;
  };
  Status add(Json value) {
    if (open_.empty())
      root = std::move(value);
    else if (!open_.back().members.empty())
      open_.back().members.back().value = std::move(value);
    else
      open_.back().items.push_back(std::move(value));
    return Ok{};
  }
  std::vector<Open> open_;
};

}  // namespace

Status parse_json_events(std::string_view text, const JsonLimits& given, JsonEvents& events) {
  JsonLimits limits = given;
  // A member of a growing object takes up to 96 bytes: so a tree stays within 64 MiB and twice the text.
  if (limits.max_nodes == 0) limits.max_nodes = std::min<size_t>(150000 + text.size() / 24, 600000);
  if (text.size() > limits.max_bytes)
    return Error(ErrorKind::kMemory,
                 format("JSON of %zu bytes exceeds the limit of %zu", text.size(), limits.max_bytes));
  if (text.substr(0, 3) == "\xEF\xBB\xBF")
    return invalid("JSON starts with a byte order mark at byte 0").advise("save it as UTF-8 without one");
  // The parser below would take a NUL for the end of the text.
  if (const size_t nul = text.find('\0'); nul != text.npos) return invalid("not JSON: a NUL at byte %zu", nul);
  const char* reached = text.data();
  Bridge bridge(limits, events);
  bool ok = false;
  try {
    ok = Text::sax_parse(Cursor(text.data(), &reached), Cursor(text.data() + text.size(), &reached), &bridge);
  } catch (...) {
    bridge.error = error_of(std::current_exception());
  }
  if (ok && !bridge.error) return Ok{};
  Error error = bridge.error ? std::move(*bridge.error) : internal_error("the JSON parser stopped without a reason");
  error.message += format(" at byte %td", reached - text.data());
  return error;
}

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  TreeBuilder tree;
  PERI_TRY(parse_json_events(text, limits, tree));
  return std::move(tree.root);
}

}  // namespace peri
