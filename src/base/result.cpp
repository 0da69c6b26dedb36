// Implementation of errors: names, exit codes, the one-line text and printf-style makers.
#include "base/result.hpp"

#include <algorithm>
#include <cctype>
#include <clocale>
#include <cstdarg>
#include <cstdio>

#include "base/utf8.hpp"

namespace peri {

std::string_view error_kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage: return "usage";
    case ErrorKind::kInvalid: return "invalid";
    case ErrorKind::kUnsupported: return "unsupported";
    case ErrorKind::kIo: return "io";
    case ErrorKind::kAccuracy: return "accuracy";
    case ErrorKind::kRegression: return "regression";
    case ErrorKind::kUnstable: return "unstable";
    case ErrorKind::kRefused: return "refused";
    case ErrorKind::kCancelled: return "cancelled";
    case ErrorKind::kMemory: return "memory";
    case ErrorKind::kInternal: return "internal";
  }
  return "internal";
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage: return 2;
    case ErrorKind::kAccuracy: return 3;
    case ErrorKind::kRegression: return 4;
    case ErrorKind::kUnstable: return 5;
    case ErrorKind::kCancelled: return 130;
    default: return 1;
  }
}

namespace {
constexpr size_t kMaxQuotedBytes = 300, kQuotedShown = 100;  // of a value in quotation marks
constexpr size_t kMaxPartBytes = 8000;                       // of a part of an error, which may be a list

std::string beginning(std::string_view text, size_t bytes) {
  size_t end = std::min(bytes, text.size());
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + format("... (%zu bytes)", text.size());
}

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// The one rule for values that an error quotes: names, categories and words of a file may be of any length.
std::string with_short_values(std::string_view text) {
  std::string out;
  bool closes = true;  // some quotation mark from here on
  for (size_t at = 0; at < text.size();) {
    const bool opens = closes && text[at] == '\'' && (at == 0 || !is_letter(text[at - 1]));
    size_t end = opens ? text.find('\'', at + 1) : std::string_view::npos;
    while (end != std::string_view::npos && end + 1 < text.size() && is_letter(text[end + 1]))
      end = text.find('\'', end + 1);  // an apostrophe
    if (end == std::string_view::npos) {
      closes = closes && !opens;
      out += text[at++];
      continue;
    }
    const std::string_view value = text.substr(at + 1, end - at - 1);
    out += '\'' + (value.size() > kMaxQuotedBytes ? beginning(value, kQuotedShown) : std::string(value)) + '\'';
    at = end + 1;
  }
  return out.size() > kMaxPartBytes ? beginning(out, kMaxPartBytes) : out;
}

void set_once(std::string& field, std::string_view v) {
  if (field.empty()) field = v;
}

// During its lifetime this thread formats numbers with a decimal point, whatever the process's locale: they are used in
// command lines, in pages and by tests.
class PlainNumbers {
 public:
  PlainNumbers() : before_(uselocale(plain())) {}
  PlainNumbers(const PlainNumbers&) = delete;
  ~PlainNumbers() { uselocale(before_); }

 private:
  static locale_t plain() {
    static const locale_t c = newlocale(LC_ALL_MASK, "C", nullptr);
    return c;
  }
  locale_t before_;
};

std::string vformat(const char* fmt, va_list args) {
  const PlainNumbers plain;
  va_list again;
  va_copy(again, args);
  const int length = std::vsnprintf(nullptr, 0, fmt, args);
  std::string out(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  if (length > 0) std::vsnprintf(out.data(), out.size() + 1, fmt, again);
  va_end(again);
  return out;
}
}  // namespace

Error&& Error::in_file(std::string_view v) && {
  set_once(file, v);
  return std::move(*this);
}
Error&& Error::at_node(std::string_view v) && {
  set_once(node, v);
  return std::move(*this);
}
Error&& Error::expecting(std::string_view v) && {
  set_once(expected, with_short_values(v));
  return std::move(*this);
}
Error&& Error::but_found(std::string_view v) && {
  set_once(found, with_short_values(v));
  return std::move(*this);
}
Error&& Error::advise(std::string_view v) && {
  set_once(remedy, v);
  return std::move(*this);
}

std::string Error::text() const {
  std::string out;
  if (!file.empty()) out += file + ": ";
  if (!node.empty()) out += with_short_values("'" + node + "'") + ": ";
  out += with_short_values(message);
  if (!expected.empty()) out += ": expected " + expected;
  if (!found.empty()) out += (expected.empty() ? ": found " : ", found ") + found;
  if (!remedy.empty()) out += "; " + remedy;
  return printable(out);
}

std::string format(const char* fmt, ...) {
  va_list args;
  va_start(args, fmt);
  std::string out = vformat(fmt, args);
  va_end(args);
  return out;
}

#define PERI_ERROR_MAKER(name, kind)     \
  Error name(const char* fmt, ...) {     \
    va_list args;                        \
    va_start(args, fmt);                 \
    Error out(kind, vformat(fmt, args)); \
    va_end(args);                        \
    return out;                          \
  }
PERI_ERROR_MAKER(invalid, ErrorKind::kInvalid)
PERI_ERROR_MAKER(unsupported, ErrorKind::kUnsupported)
PERI_ERROR_MAKER(usage, ErrorKind::kUsage)
PERI_ERROR_MAKER(io_error, ErrorKind::kIo)
PERI_ERROR_MAKER(refused, ErrorKind::kRefused)
PERI_ERROR_MAKER(internal_error, ErrorKind::kInternal)
#undef PERI_ERROR_MAKER

}  // namespace peri
