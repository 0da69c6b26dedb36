// Implementation of errors: names, exit codes, the one-line text and printf-style makers.
#include "base/result.hpp"

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
  set_once(expected, v);
  return std::move(*this);
}
Error&& Error::but_found(std::string_view v) && {
  set_once(found, v);
  return std::move(*this);
}
Error&& Error::advise(std::string_view v) && {
  set_once(remedy, v);
  return std::move(*this);
}

std::string Error::text() const {
  std::string out;
  if (!file.empty()) out += file + ": ";
  if (!node.empty()) out += "'" + node + "': ";
  out += message;
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
