// Writing JSON: structure is tracked by a stack of levels, text is escaped, numbers are formatted by std::to_chars.
#include <charconv>
#include <cmath>

#include "base/json.hpp"
#include "base/utf8.hpp"

namespace peri {

void JsonWriter::new_line() {
  if (indent_ == 0) return;
  out_ += '\n';
  out_.append(levels_.size() * static_cast<size_t>(indent_), ' ');
}

void JsonWriter::before_value() {
  if (levels_.empty()) {
    PERI_CHECK(out_.empty(), "a JSON document holds one value");
    return;
  }
  Level& level = levels_.back();
  PERI_CHECK(level.object == after_key_, "a key before each value of an object, none in an array");
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (!level.empty) out_ += ',';
  level.empty = false;
  new_line();
}

JsonWriter& JsonWriter::open(char c, bool object) {
  before_value();
  out_ += c;
  levels_.push_back({object, true});
  return *this;
}

JsonWriter& JsonWriter::close(char c, bool object) {
  PERI_CHECK(!levels_.empty() && levels_.back().object == object && !after_key_, "close what was opened");
  const bool empty = levels_.back().empty;
  levels_.pop_back();
  if (!empty) new_line();
  out_ += c;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  PERI_CHECK(!levels_.empty() && levels_.back().object && !after_key_, "a key belongs in an object");
  Level& level = levels_.back();
  if (!level.empty) out_ += ',';
  level.empty = false;
  new_line();
  quoted(name);
  out_ += indent_ ? ": " : ":";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::null() {
  before_value();
  out_ += "null";
  return *this;
}

JsonWriter& JsonWriter::value(bool v) {
  before_value();
  out_ += v ? "true" : "false";
  return *this;
}

namespace {
template <class T>
void append_number(std::string& out, T v) {
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v);
  out.append(buffer, end.ptr);
}
}  // namespace

JsonWriter& JsonWriter::value(int64_t v) {
  before_value();
  append_number(out_, v);
  return *this;
}

JsonWriter& JsonWriter::value(uint64_t v) {
  before_value();
  append_number(out_, v);
  return *this;
}

JsonWriter& JsonWriter::value(double v) {
  if (std::isnan(v)) return value("NaN");
  if (std::isinf(v)) return value(v > 0 ? "Infinity" : "-Infinity");
  before_value();
  append_number(out_, v);
  return *this;
}

JsonWriter& JsonWriter::number(double v) {
  before_value();
  const size_t from = out_.size();
  if (!std::isfinite(v))
    out_ += std::isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity";
  else
    append_number(out_, v);
  if (std::isfinite(v) && out_.find_first_of(".e", from) == out_.npos) out_ += ".0";
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view v) {
  before_value();
  quoted(v);
  return *this;
}

JsonWriter& JsonWriter::value(const Json& v) {
  switch (v.kind()) {
    case Json::Kind::kNull: return null();
    case Json::Kind::kBool: return value(v.as_bool().value());
    case Json::Kind::kInt: return value(v.as_int().value());
    case Json::Kind::kUint: return value(v.as_uint().value());
    case Json::Kind::kDouble: return value(v.as_double().value());
    case Json::Kind::kString: return value(v.as_string().value());
    case Json::Kind::kArray:
      begin_array();
      for (const Json& item : v.items()) value(item);
      return end_array();
    case Json::Kind::kObject:
      begin_object();
      for (const Json::Member& m : v.members()) key(m.key).value(m.value);
      return end_object();
  }
  return *this;
}

namespace {
// As UTF-16, two halves where one does not hold it.
void append_escape(std::string& out, char32_t code) {
  if (code >= 0x10000) {
    out += format("\\u%04x", 0xD800 + static_cast<unsigned>((code - 0x10000) >> 10));
    code = 0xDC00 + ((code - 0x10000) & 0x3FF);
  }
  out += format("\\u%04x", static_cast<unsigned>(code));
}
}  // namespace

void JsonWriter::quoted(std::string_view s) {
  out_ += '"';
  size_t i = 0;
  while (i < s.size()) {
    const unsigned char c = static_cast<unsigned char>(s[i]);
    if (c >= 0x80) {
      const Utf8Char u = utf8_decode(s, i);
      if (u.valid && obeyed(u.code))
        append_escape(out_, u.code);
      else if (u.valid)
        out_.append(s, i, static_cast<size_t>(u.bytes));
      else
        out_ += "\xEF\xBF\xBD";
      i += static_cast<size_t>(u.bytes);
      continue;
    }
    ++i;
    switch (c) {
      case '"': out_ += "\\\""; break;
      case '\\': out_ += "\\\\"; break;
      case '\n': out_ += "\\n"; break;
      case '\r': out_ += "\\r"; break;
      case '\t': out_ += "\\t"; break;
      default:
        if (obeyed(c))
          out_ += format("\\u%04x", c);
        else
          out_ += static_cast<char>(c);
    }
  }
  out_ += '"';
}

const std::string& JsonWriter::text() const {
  PERI_CHECK(levels_.empty() && !out_.empty(), "the JSON document is complete");
  return out_;
}

std::string JsonWriter::take() {
  PERI_CHECK(levels_.empty() && !out_.empty(), "the JSON document is complete");
  return std::move(out_);
}

}  // namespace peri
