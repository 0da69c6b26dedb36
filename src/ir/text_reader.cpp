// Lexing of words, strings and numbers.
#include "ir/text_reader.hpp"

#include <algorithm>
#include <charconv>

namespace peri::ir {

namespace {
bool name_char(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '/'; }
}  // namespace

bool TextReader::finished() {
  skip();
  return at_ == text_.size();
}

Error TextReader::fail(const char* what) const {
  const std::string_view before = std::string_view(text_).substr(0, at_);
  const size_t line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  return invalid("IR text, line %zu column %zu: %s", line, before.size() - before.rfind('\n'), what);
}

Error TextReader::bad_number(size_t start) {
  at_ = start;
  return fail("bad number");
}

void TextReader::skip() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else {
      return;
    }
  }
}

char TextReader::peek() {
  skip();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool TextReader::take(char c) {
  if (peek() != c) return false;
  ++at_;
  return true;
}

bool TextReader::word(std::string_view w) {
  skip();
  if (text_.substr(at_, w.size()) != w) return false;
  if (at_ + w.size() < text_.size() && name_char(text_[at_ + w.size()])) return false;
  at_ += w.size();
  return true;
}

Result<std::string> TextReader::identifier() {
  skip();
  const size_t start = at_;
  while (at_ < text_.size() && name_char(text_[at_])) ++at_;
  if (at_ == start) return fail("expected a name");
  return std::string(text_.substr(start, at_ - start));
}

Result<std::string> TextReader::string() {
  if (!take('"')) return fail("expected a string");
  std::string out;
  while (at_ < text_.size() && text_[at_] != '"') {
    char c = text_[at_++];
    if (c == '\\') {
      if (at_ >= text_.size()) break;
      c = text_[at_++];
      if (c == 'x') {
        unsigned v = 0;
        if (at_ + 2 > text_.size()) return fail("bad escape");
        const char* const stop = text_.data() + at_ + 2;
        if (const auto [end, code] = std::from_chars(stop - 2, stop, v, 16); code != std::errc() || end != stop)
          return fail("bad escape");
        at_ += 2;
        c = static_cast<char>(v);
      }
    }
    out += c;
  }
  if (!take('"')) return fail("unclosed string");
  return out;
}
Result<std::string> TextReader::name() { return peek() == '"' ? string() : identifier(); }

Result<double> TextReader::number(bool* integer, int64_t* as_int) {
  skip();
  const size_t start = at_;
  if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
  while (at_ < text_.size() && (isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '.' ||
                                ((text_[at_] == '-' || text_[at_] == '+') && text_[at_ - 1] == 'e')))
    ++at_;
  const std::string_view word_text = text_.substr(start, at_ - start);
  *integer = !word_text.empty() && word_text.find_first_of(".einf") == std::string_view::npos;
  double v = 0;
  if (*integer) {
    auto [end, code] = std::from_chars(word_text.data(), word_text.data() + word_text.size(), *as_int);
    if (code == std::errc::result_out_of_range) {
      uint64_t u = 0;
      auto [end2, code2] = std::from_chars(word_text.data(), word_text.data() + word_text.size(), u);
      if (code2 == std::errc() && end2 == word_text.data() + word_text.size()) {
        *as_int = static_cast<int64_t>(u);
        return static_cast<double>(u);
      }
    }
    if (code != std::errc() || end != word_text.data() + word_text.size()) return bad_number(start);
    return static_cast<double>(*as_int);
  }
  auto [end, code] = std::from_chars(word_text.data(), word_text.data() + word_text.size(), v);
  if (code != std::errc() || end != word_text.data() + word_text.size() || word_text.empty()) return bad_number(start);
  return v;
}

Result<int64_t> TextReader::integer() {
  bool is_int = false;
  int64_t v = 0;
  PERI_TRY(number(&is_int, &v));
  if (!is_int) return fail("expected an integer");
  return v;
}

}  // namespace peri::ir
