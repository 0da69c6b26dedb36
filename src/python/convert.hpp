// What crosses between Python and the C++ interface: errors become exceptions, callbacks take the interpreter's lock,
// arrays are described and never copied.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <peri/peri.hpp>

namespace peri::python {

namespace nb = nanobind;

// Bytes that are no UTF-8 stay recognisable.
nb::object text(const std::string& words);
// As the exception of its kind, of the Python module peri.errors.
[[noreturn]] void raise(const Error& error);

template <class T>
T take(Result<T> result) {
  if (!result) raise(result.error());
  return std::move(*result);
}

// Functions of a caller while a call of ours runs without the interpreter's lock. What they raise, and Ctrl-C, ends the
// call as far as it can be ended, and is raised again by check().
class Callbacks {
 public:
  Callbacks(nb::object progress, nb::object stop) : progress_(std::move(progress)), stop_(std::move(stop)) {}
  void progress(size_t done, size_t total, const char* what);
  bool stop();
  void check() const {
    if (raised_) std::rethrow_exception(raised_);
  }

 private:
  nb::object progress_, stop_;  // None: there is none
  std::exception_ptr raised_;
};

// A log function of Python: called as function(warning, message).
struct Log {
  nb::object function;
  Hooks hooks() { return {nullptr, &Log::tell, this}; }
  static void tell(void* user, peri_log_level level, const char* message);
};

// Memory of an array: (dtype, shape, address, bytes), or (capsule of DLPack, name of the port); both stay alive through
// the call.
View view_of(nb::handle array);
// Output `index` of the last run as an array of NumPy that shares its memory.
nb::object array_of(Session& session, size_t index);
// A copy of memory of the session.
nb::object copy_of(const View& view);

}  // namespace peri::python
