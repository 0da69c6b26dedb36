// Conversions between Python and the C++ interface: errors become exceptions, callbacks take the interpreter's lock,
// arrays are passed without copies.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <peri/peri.hpp>

namespace peri::python {

namespace nb = nanobind;

// Invalid UTF-8 is escaped.
nb::object text(const std::string& words);
// Raises the exception of the error's kind, from the Python module peri.errors.
[[noreturn]] void raise(const Error& error);

template <class T>
T take(Result<T> result) {
  if (!result) raise(result.error());
  return std::move(*result);
}

// Callbacks during a call that runs without the interpreter's lock. An exception in a callback, and Ctrl-C, end the
// call as what a function of the caller throws, and are raised again by check().
class Callbacks {
 public:
  Callbacks(nb::object progress, nb::object stop) : progress_(std::move(progress)), stop_(std::move(stop)) {}
  void progress(size_t done, size_t total, const char* what);
  bool stop();
  void check() const {
    if (raised_) std::rethrow_exception(raised_);
  }

 private:
  nb::object progress_, stop_;  // None: not given
  std::exception_ptr raised_;
};

// A log function of Python: called as function(warning, message). Its exceptions are reported and dropped; those of the
// program's signal handlers, which Python calls here first, are raised at the end of the call.
struct Log {
  nb::object function;
  Hooks hooks() { return {nullptr, &Log::tell, this}; }
  static void tell(void* user, peri_log_level level, const char* message);
};

// Views of arrays, each (dtype, shape, address, bytes), (DLPack capsule, name of the port, whether it is an output), or
// of texts (shape, list of bytes); None gives an empty view. Arrays and texts stay alive during the call.
struct Views {
  explicit Views(const nb::list& arrays);
  std::vector<View> all;

 private:
  std::vector<std::vector<peri_string>> strings_;  // that views of texts point to
};
// Output `index` of the last run: a NumPy array that shares its memory; (shape, list of bytes) of texts.
nb::object array_of(Session& session, size_t index, const View& made);
// A copy of the session's memory.
nb::object copy_of(const View& view);

}  // namespace peri::python
