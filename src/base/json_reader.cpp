// Reading JSON: nlohmann's event parser behind our limits. The only file that includes it.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/fault.hpp"
#include "base/json.hpp"

namespace peri {

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

// The length of the number that JSON lacks at the beginning of `text`; 0: there is none.
size_t non_finite_at(std::string_view text, double* value) {
  const size_t sign = text.substr(0, 1) == "-" ? 1 : 0;
  const auto is = [&](std::string_view word) { return text.substr(sign, word.size()) == word; };
  const double inf = std::numeric_limits<double>::infinity();
  *value = is("NaN") ? std::numeric_limits<double>::quiet_NaN() : sign ? -inf : inf;
  for (const std::string_view word : {"NaN", "Infinity", "Inf"})
    if (is(word)) return sign + word.size();
  return 0;
}

// The same iterator for texts with numbers that JSON lacks: the parser sees `null` in place of each, and *found is the
// number that the null just read represents.
class NonFiniteCursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  NonFiniteCursor(std::string_view rest, const char** reached, std::optional<double>* found)
      : rest_(rest), reached_(reached), found_(found) {
    look();
  }
  reference operator*() const { return *(instead_ ? instead_ : rest_.data()); }
  NonFiniteCursor& operator++() {
    if (instead_) {
      ++instead_;
      if (*instead_ != '\0') return *this;
    }
    if (!instead_) {
      const char c = rest_[0];
      if (c == '"' && !escaped_) in_string_ = !in_string_;
      escaped_ = in_string_ && c == '\\' && !escaped_;
    }
    rest_.remove_prefix(instead_ ? length_ : 1);
    instead_ = nullptr;
    *reached_ = rest_.data();
    look();
    return *this;
  }
  NonFiniteCursor operator++(int) {
    NonFiniteCursor before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const NonFiniteCursor& a, const NonFiniteCursor& b) {
    return a.rest_.data() == b.rest_.data();
  }
  friend bool operator!=(const NonFiniteCursor& a, const NonFiniteCursor& b) { return !(a == b); }

 private:
  void look() {
    if (in_string_ || rest_.empty() || (rest_[0] != 'N' && rest_[0] != 'I' && rest_[0] != '-')) return;
    double value = 0;
    length_ = non_finite_at(rest_, &value);
    if (length_ == 0) return;
    instead_ = "null";
    *found_ = value;
  }

  std::string_view rest_;
  const char** reached_;
  std::optional<double>* found_;
  const char* instead_ = nullptr;  // what is left of the null
  size_t length_ = 0;
  bool in_string_ = false, escaped_ = false;
};

using Text = nlohmann::json;

// nlohmann's events → ours, with depth and node limits; `error` is set when it returns false.
class Bridge : public nlohmann::json_sax<Text> {
 public:
  Bridge(const JsonLimits& limits, JsonEvents& events) : limits_(limits), events_(events) {}
  std::optional<Error> error;
  std::optional<double> non_finite;  // what the next null stands for

  bool null() override {
    const auto number = std::exchange(non_finite, std::nullopt);
    return scalar(number ? Json(*number) : Json());
  }
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
    // The library's "<U+001B>" of a control character, in the form of all other messages: "\x1b".
    for (size_t at = 0; (at = found.find("<U+00", at)) != std::string::npos && at + 8 <= found.size(); ++at) {
      std::string digits = found.substr(at + 5, 2);
      for (char& c : digits) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      found.replace(at, 8, "\\x" + digits);
    }
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
    if (limits.non_finite && (text.find("NaN") != text.npos || text.find("Inf") != text.npos))
      ok = Text::sax_parse(NonFiniteCursor(text, &reached, &bridge.non_finite),
                           NonFiniteCursor(text.substr(text.size()), &reached, &bridge.non_finite), &bridge);
    else
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
  if (text.empty()) return invalid("not valid JSON: it is empty");
  TreeBuilder tree;
  PERI_TRY(parse_json_events(text, limits, tree));
  return std::move(tree.root);
}

}  // namespace peri
