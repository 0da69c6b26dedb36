// JSON in and out. Reading: strict (RFC 8259, no duplicate keys, valid UTF-8, bounded depth, nodes and bytes), either
// as a value tree or as events for callers that must not hold a tree. Writing: streaming, escaped, locale-independent.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.hpp"

namespace peri {

struct JsonLimits {
  int max_depth = 64;
  size_t max_bytes = size_t{128} << 20;
  size_t max_nodes = 0;  // values of all kinds; 0 means min(150,000 + bytes / 24, 600,000): see json.cpp
  // Accepts NaN, Inf and Infinity, each also with a leading '-', in place of a number: JSON lacks them, but writers in
  // Python and RapidJSON emit them.
  bool non_finite = false;
};

// A JSON value. Objects keep the order of the file and have unique keys. An integer literal is kInt if it fits int64,
// else kUint if it fits uint64, else kDouble, which is finite unless JsonLimits::non_finite allowed others; a literal
// outside the range of double is a parse error.
class Json {
 public:
  enum class Kind : uint8_t { kNull, kBool, kInt, kUint, kDouble, kString, kArray, kObject };
  struct Member;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;

  Json() = default;
  explicit Json(bool v) : v_(v) {}
  explicit Json(int64_t v) : v_(v) {}
  explicit Json(uint64_t v) : v_(v) {}
  explicit Json(double v) : v_(v) {}
  explicit Json(std::string v) : v_(std::make_unique<std::string>(std::move(v))) {}
  explicit Json(Array v);
  Json(Json&&) noexcept;
  Json& operator=(Json&&) noexcept;
  ~Json();

  Kind kind() const;
  std::string_view kind_name() const;  // "null", "boolean", "number", "string", "array", "object"
  bool is_null() const { return kind() == Kind::kNull; }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_array() const { return kind() == Kind::kArray; }
  bool is_object() const { return kind() == Kind::kObject; }

  // An object of these members; an error names a duplicate key.
  static Result<Json> object(Object members);

  // Conversions; an error of kind kInvalid says what was expected and found. as_int and as_uint refuse fractions and
  // overflow, as_double takes every number.
  Result<bool> as_bool() const;
  Result<int64_t> as_int() const;
  Result<uint64_t> as_uint() const;
  Result<double> as_double() const;
  Result<std::string_view> as_string() const;
  Result<const Array*> as_array() const;
  Result<const Object*> as_object() const;

  // Elements of an array, members of an object; empty for any other kind.
  const Array& items() const;
  const Object& members() const;

  // The member `key` of an object, nullptr if absent or if this is no object. O(log members).
  const Json* find(std::string_view key) const;

  // Member of an object, typed. Missing or of another kind: an error that names the key.
  Result<const Json*> get(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<int64_t> get_int(std::string_view key) const;
  Result<uint64_t> get_uint(std::string_view key) const;
  Result<double> get_double(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key) const;
  Result<const Array*> get_array(std::string_view key) const;
  Result<const Object*> get_object(std::string_view key) const;

  // The same with a fallback for an absent or null member; a member of another kind stays an error.
  Result<bool> get_bool(std::string_view key, bool fallback) const;
  Result<int64_t> get_int(std::string_view key, int64_t fallback) const;
  Result<double> get_double(std::string_view key, double fallback) const;
  Result<std::string_view> get_string(std::string_view key, std::string_view fallback) const;

 private:
  struct Table;
  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::unique_ptr<std::string>, std::unique_ptr<Array>,
               std::unique_ptr<Table>>
      v_;
};

struct Json::Member {
  std::string key;
  Json value;
};

// Private: members in file order; by_key, their order by key, is filled only where a binary search is worth it.
struct Json::Table {
  Object members;
  std::vector<uint32_t> by_key;
};

// Receives the parts of a document in order. Any error returned stops the parse and is reported with its byte offset.
// An object's duplicate keys are NOT refused here: the receiver decides.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual Status on_scalar(Json value) = 0;  // null, bool, number or string
  virtual Status on_key(std::string key) = 0;
  virtual Status on_begin(bool object) = 0;
  virtual Status on_end(bool object) = 0;
};

// Parses `text`, which must hold exactly one JSON value and nothing but white space around it. Errors: kInvalid with
// the byte offset; kMemory beyond max_bytes or max_nodes. Iterative: depth costs no stack. Linear in text.size().
Status parse_json_events(std::string_view text, const JsonLimits& limits, JsonEvents& events);

// The same as a tree; duplicate keys are refused.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

// Writes one JSON document into a string. Strings: '"', '\\' and control characters escaped, bytes that are not UTF-8
// become U+FFFD. Doubles: the shortest text that reads back equal. NaN and infinities, which JSON lacks, are written as
// the strings "NaN", "Infinity", "-Infinity". Misuse (a value without a key in an object, ...) is a PERI_CHECK.
class JsonWriter {
 public:
  // indent 0: one line; otherwise spaces per level.
  explicit JsonWriter(int indent = 0) : indent_(indent) {}

  JsonWriter& begin_object() { return open('{', true); }
  JsonWriter& end_object() { return close('}', true); }
  JsonWriter& begin_array() { return open('[', false); }
  JsonWriter& end_array() { return close(']', false); }
  JsonWriter& key(std::string_view name);

  JsonWriter& null();
  JsonWriter& value(bool v);
  JsonWriter& value(int v) { return value(static_cast<int64_t>(v)); }
  JsonWriter& value(int64_t v);
  JsonWriter& value(uint64_t v);
  JsonWriter& value(double v);
  JsonWriter& value(std::string_view v);
  JsonWriter& value(const std::string& v) { return value(std::string_view(v)); }
  JsonWriter& value(const char* v) { return value(std::string_view(v)); }
  JsonWriter& value(const Json& v);
  // A number that is visibly not an integer: 1.0 for 1; NaN, Infinity and -Infinity bare, which is not JSON, but which
  // readers with `non_finite` accept.
  JsonWriter& number(double v);

  template <class T>
  JsonWriter& field(std::string_view name, const T& v) {
    return key(name).value(v);
  }

  // The document; precondition: complete (everything opened is closed).
  const std::string& text() const;
  std::string take();

 private:
  struct Level {
    bool object;
    bool empty;
  };
  JsonWriter& open(char c, bool object);
  JsonWriter& close(char c, bool object);
  void before_value();
  void new_line();
  void quoted(std::string_view s);

  std::string out_;
  std::vector<Level> levels_;
  int indent_;
  bool after_key_ = false;
};

}  // namespace peri
