// Functions of a caller of the library: what they throw goes no further than where they are called, and is told as the
// caller's.
#pragma once

#include <cxxabi.h>

#include <exception>
#include <optional>

#include "base/fault.hpp"

namespace peri {

// kUsage: "the caller's function 'progress' threw an exception: TEXT".
Error thrown_by(const char* function, const char* text);

// Runs f(), which calls the caller's `function`; what it throws becomes *error, and `otherwise` is returned. A failed
// check and a lack of memory pass: they are no mistakes of the caller.
template <class T, class F>
T calling(const char* function, T otherwise, std::optional<Error>* error, F&& f) {
  try {
    return f();
  } catch (abi::__forced_unwind&) {
    throw;
  } catch (const InternalFault&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    *error = thrown_by(function, e.what());
  } catch (...) {
    *error = thrown_by(function, "");
  }
  return otherwise;
}

}  // namespace peri
