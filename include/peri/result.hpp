// Result<T> of Perihelion's C++ interface, which throws no exceptions of its own. Included by peri.hpp.
#pragma once

#include <peri/peri.h>

#include <memory>
#include <new>
#include <string>
#include <utility>
#include <variant>

namespace peri {
inline namespace v1 {

// Why a call failed. `text` is everything on one line.
struct Error {
  peri_error_kind kind = PERI_ERROR_INTERNAL;
  std::string text, message, file, node, expected, found, remedy;
};

// A value or an Error. value() and * require ok(); error() requires !ok().
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
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

namespace detail {
// Runs `f`, a function that returns a Result; a std::bad_alloc in it becomes an error too.
template <class F>
auto guarded(F f) -> decltype(f()) {
#if defined(__cpp_exceptions)
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return Error{PERI_ERROR_MEMORY, "out of memory", "out of memory", {}, {}, {}, {}, {}};
  }
#else
  return f();
#endif
}

inline Error take(peri_error* raw) {
  const std::unique_ptr<peri_error, void (*)(peri_error*)> e(raw, peri_error_free);
  return {peri_error_get_kind(raw),
          peri_error_get(raw, PERI_ERROR_TEXT),
          peri_error_get(raw, PERI_ERROR_MESSAGE),
          peri_error_get(raw, PERI_ERROR_FILE),
          peri_error_get(raw, PERI_ERROR_NODE),
          peri_error_get(raw, PERI_ERROR_EXPECTED),
          peri_error_get(raw, PERI_ERROR_FOUND),
          peri_error_get(raw, PERI_ERROR_REMEDY)};
}
}  // namespace detail

}  // namespace v1
}  // namespace peri
