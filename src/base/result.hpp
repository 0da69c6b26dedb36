// Result and Status: how a failure crosses a module border. An Error says whose fault it is, which file and node it
// concerns, what was expected, found and to be done. Only a failed check is thrown across a border (base/fault.hpp).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace peri {

// What kind of failure this is; it decides the exit code (see exit_code()).
enum class ErrorKind {
  kUsage,        // the command line or the call is wrong                          exit 2
  kInvalid,      // the input (file, model, tensor) breaks its format or its rules exit 1
  kUnsupported,  // the input is valid, but we cannot do it; the remedy says what to do
  kIo,           // the operating system refused: open, read, write, map
  kAccuracy,     // an answer lies outside its bound                               exit 3
  kRegression,   // a comparison found a regression                                exit 4
  kUnstable,     // a measurement did not become stable                            exit 5
  kRefused,      // locked, missing executor, other versions: a typed refusal
  kCancelled,    // the user interrupted
  kMemory,       // not enough memory, or a size beyond its cap
  kInternal,     // our own bug
};

std::string_view error_kind_name(ErrorKind kind);
int exit_code(ErrorKind kind);

// An error in full. Only `message` is compulsory. All parts are plain UTF-8 and hold no secret and no internal address.
struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;   // one line: what went wrong
  std::string file;      // the file concerned, as the user named it
  std::string node;      // the node, tensor or field concerned
  std::string expected;  // what would have been right
  std::string found;     // what was there
  std::string remedy;    // what to do

  Error() = default;
  Error(ErrorKind k, std::string m) : kind(k), message(std::move(m)) {}

  // Fluent setters, kept if already set: the innermost place knows best.
  Error&& in_file(std::string_view v) &&;
  Error&& at_node(std::string_view v) &&;
  Error&& expecting(std::string_view v) &&;
  Error&& but_found(std::string_view v) &&;
  Error&& advise(std::string_view v) &&;

  // "file: node 'x': message: expected A, found B; remedy" on one line.
  std::string text() const;
};

// Value of success without a payload.
struct Ok {};

// Either a value or an Error. `[[nodiscard]]`: dropping one is a bug.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

using Status = Result<Ok>;

// `printf`-style formatting into a string (checked by the compiler).
[[gnu::format(printf, 1, 2)]] std::string format(const char* fmt, ...);

// Short forms for making errors: `return invalid("rank %d is not 4", rank);`
[[gnu::format(printf, 1, 2)]] Error invalid(const char* fmt, ...);
[[gnu::format(printf, 1, 2)]] Error unsupported(const char* fmt, ...);
[[gnu::format(printf, 1, 2)]] Error usage(const char* fmt, ...);
[[gnu::format(printf, 1, 2)]] Error io_error(const char* fmt, ...);
[[gnu::format(printf, 1, 2)]] Error refused(const char* fmt, ...);
[[gnu::format(printf, 1, 2)]] Error internal_error(const char* fmt, ...);

namespace detail {
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& note);
}

}  // namespace peri

#define PERI_CONCAT_(a, b) a##b
#define PERI_CONCAT(a, b) PERI_CONCAT_(a, b)

// PERI_TRY(expr): return the error of a Status/Result expression, if it has one.
#define PERI_TRY(...)                                         \
  do {                                                        \
    auto&& peri_try_ = (__VA_ARGS__);                         \
    if (!peri_try_.ok()) return std::move(peri_try_).error(); \
  } while (0)

// PERI_ASSIGN(auto x, expr): x = value of the Result, or return its error.
#define PERI_ASSIGN(decl, ...) PERI_ASSIGN_IMPL_(PERI_CONCAT(peri_assign_, __LINE__), decl, __VA_ARGS__)
#define PERI_ASSIGN_IMPL_(tmp, decl, ...)       \
  auto tmp = (__VA_ARGS__);                     \
  if (!tmp.ok()) return std::move(tmp).error(); \
  decl = std::move(tmp).value()

// PERI_CHECK(cond[, note]): our own invariant. Stays on in release; throws InternalFault with place and note.
#define PERI_CHECK(cond, ...)                                                            \
  do {                                                                                   \
    if (!(cond)) [[unlikely]]                                                            \
      ::peri::detail::check_failed(__FILE__, __LINE__, #cond, std::string{__VA_ARGS__}); \
  } while (0)
