// A recursive descent parser with at most 16 nested messages.
#include "serve/config/text_proto.hpp"

#include <algorithm>
#include <charconv>

#include "base/utf8.hpp"

namespace peri::serve {
namespace {

constexpr int kMaxDepth = 16;
constexpr size_t kMaxFields = 20000, kMaxBytes = 1 << 20;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '+' || c == '.';
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  // Fields up to `end` (0: the end of the text), which is consumed.
  Status message(TextMessage* out, char end, int depth) {
    if (depth > kMaxDepth) return at("messages more than 16 deep");
    while (true) {
      skip();
      if (at_ == text_.size()) return end ? Status(at("the text ends inside a message")) : Status(Ok{});
      if (end && text_[at_] == end) {
        ++at_;
        return Ok{};
      }
      PERI_TRY(field(out, depth));
      skip();
      if (at_ < text_.size() && (text_[at_] == ',' || text_[at_] == ';')) ++at_;
    }
  }

 private:
  Error at(const std::string& what) const { return invalid("line %d: %s", line_, printable(what).c_str()); }
  void skip() {
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
        if (at_ == text_.size()) return;
      }
      if (text_[at_] == '\n')
        ++line_;
      else if (text_[at_] != ' ' && text_[at_] != '\t' && text_[at_] != '\r')
        return;
    }
  }
  char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  std::string word() {
    const size_t from = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return std::string(text_.substr(from, at_ - from));
  }

  Status field(TextMessage* out, int depth) {
    TextField f;
    f.name = word();
    if (f.name.empty()) {
      const int bytes = at_ < text_.size() ? utf8_decode(text_, at_).bytes : 0;
      return at("expected the name of a field, found '" + std::string(text_.substr(at_, static_cast<size_t>(bytes))) +
                "'");
    }
    f.line = line_;
    skip();
    const bool colon = next() == ':';
    if (colon) ++at_;
    skip();
    if (next() == '[') {
      ++at_;
      skip();
      while (next() != ']') {
        TextField element;
        element.name = f.name;
        PERI_TRY(value(&element, depth));
        PERI_TRY(add(out, std::move(element)));
        skip();
        if (next() == ',') {
          ++at_;
          skip();
          if (next() == ']') break;
        } else if (next() != ']') {
          return at("expected ',' or ']' in the list of '" + f.name + "'");
        }
      }
      ++at_;
      return Ok{};
    }
    if (!colon && next() != '{' && next() != '<') return at("expected ':' behind '" + f.name + "'");
    PERI_TRY(value(&f, depth));
    return add(out, std::move(f));
  }

  Status add(TextMessage* out, TextField f) {
    if (++fields_ > kMaxFields) return Error(ErrorKind::kMemory, "more than 20,000 fields");
    out->fields.push_back(std::move(f));
    return Ok{};
  }

  Status value(TextField* f, int depth) {
    f->line = line_;
    const char c = next();
    if (c == '{' || c == '<') {
      ++at_;
      f->kind = TextField::Kind::kMessage;
      return message(&f->message, c == '{' ? '}' : '>', depth + 1);
    }
    if (c == '"' || c == '\'') {
      f->kind = TextField::Kind::kString;
      while (next() == '"' || next() == '\'') {  // adjacent literals form one string
        PERI_TRY(quoted(&f->value));
        skip();
      }
      if (f->value.find('\0') != std::string::npos) return at("the text of '" + f->name + "' holds a NUL");
      return Ok{};
    }
    f->value = word();
    if (f->value.empty()) return at("expected a value for '" + f->name + "'");
    return Ok{};
  }

  Status quoted(std::string* out) {
    const char quote = text_[at_++];
    while (at_ < text_.size() && text_[at_] != quote) {
      char c = text_[at_++];
      if (c == '\n') break;
      if (c != '\\') {
        out->push_back(c);
        continue;
      }
      PERI_TRY(escape(out));
    }
    if (next() != quote) return at("a string does not end on its line");
    ++at_;
    return Ok{};
  }

  Status escape(std::string* out) {
    const char c = next();
    ++at_;
    constexpr std::string_view kFrom = "ntrabfv\\'\"?", kTo = "\n\t\r\a\b\f\v\\'\"?";
    if (const size_t k = kFrom.find(c); c != '\0' && k != std::string_view::npos) {
      out->push_back(kTo[k]);
      return Ok{};
    }
    const int base = c == 'x' || c == 'X' ? 16 : 8;
    const size_t from = base == 16 ? at_ : at_ - 1, most = base == 16 ? 2 : 3;
    unsigned v = 0;
    const std::string_view digits = text_.substr(std::min(from, text_.size()), most);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), v, base);
    if (read.ec != std::errc() || v > 255) return at("an escape that is not known");
    at_ = from + static_cast<size_t>(read.ptr - digits.data());
    out->push_back(static_cast<char>(v));
    return Ok{};
  }

  std::string_view text_;
  size_t at_ = 0, fields_ = 0;
  int line_ = 1;
};
}  // namespace

Result<TextMessage> parse_text_proto(std::string_view text) {
  if (text.size() > kMaxBytes) return Error(ErrorKind::kMemory, "more than 1 MiB of text");
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // byte order mark, written by some editors
  TextMessage out;
  PERI_TRY(Reader(text).message(&out, '\0', 0));
  return out;
}

static bool may_be(const TextField& field, TextField::Kind kind) {
  return field.kind == kind || field.kind == TextField::Kind::kEither;
}

Error text_error(const TextField& field, const std::string& what) {
  return invalid("line %d: '%s' %s", field.line, printable(field.name).c_str(), printable(what).c_str());
}

Result<int64_t> text_int(const TextField& field, int64_t low, int64_t high) {
  int64_t v = 0;
  const char* end = field.value.data() + field.value.size();
  const auto read = std::from_chars(field.value.data(), end, v);
  // "010" is 8 in protobuf's text, and 10 or 8 in YAML depending on its version: refused as ambiguous.
  const size_t digits = field.value.starts_with('-') ? 1 : 0;
  const bool octal = field.value.size() > digits + 1 && field.value[digits] == '0';
  if (!may_be(field, TextField::Kind::kWord) || read.ec != std::errc() || read.ptr != end || octal || v < low ||
      v > high)
    return text_error(field, format("must be a number from %lld to %lld", static_cast<long long>(low),
                                    static_cast<long long>(high)))
        .but_found(field.kind == TextField::Kind::kMessage ? "a message" : "'" + field.value + "'");
  return v;
}

Result<double> text_real(const TextField& field, double low, double high) {
  double v = 0;
  const bool suffix = field.value.size() > 1 && (field.value.back() == 'f' || field.value.back() == 'F');
  const char* end = field.value.data() + field.value.size() - (suffix ? 1 : 0);
  const auto read = std::from_chars(field.value.data(), end, v);
  if (!may_be(field, TextField::Kind::kWord) || read.ec != std::errc() || read.ptr != end || !(v >= low && v <= high))
    return text_error(field, format("must be a number from %g to %g", low, high))
        .but_found(field.kind == TextField::Kind::kMessage ? "a message" : "'" + field.value + "'");
  return v;
}

Result<bool> text_bool(const TextField& field) {
  if (may_be(field, TextField::Kind::kWord)) {
    if (field.value == "true" || field.value == "1" || field.value == "t" || field.value == "True") return true;
    if (field.value == "false" || field.value == "0" || field.value == "f" || field.value == "False") return false;
  }
  return text_error(field, "must be true or false");
}

Result<std::string> text_string(const TextField& field) {
  if (!may_be(field, TextField::Kind::kString)) return text_error(field, "must be a string in quotes");
  return field.value;
}

Result<std::string> text_word(const TextField& field) {
  if (!may_be(field, TextField::Kind::kWord)) return text_error(field, "must be a word without quotes");
  return field.value;
}

Result<const TextMessage*> text_message(const TextField& field) {
  if (field.kind != TextField::Kind::kMessage) return text_error(field, "must be a message in braces");
  return &field.message;
}

}  // namespace peri::serve
