// A failed PERI_CHECK throws an exception, the only one that crosses modules, until a boundary turns it into an error:
// the public interface, a command, a pass, a step of a run, a candidate. Nothing terminates the caller's process.
#pragma once

#include <cxxabi.h>

#include <exception>
#include <string>
#include <type_traits>

#include "base/result.hpp"

namespace peri {

class InternalFault final : public std::exception {
 public:
  InternalFault(const char* file, int line, const char* condition, std::string note);
  // "internal check failed at src/ir/graph.cpp:18: v != nullptr: conv.pads has another kind"
  const char* what() const noexcept override { return text_.c_str(); }
  // The node or step concerned; kept if already set, since the innermost caller knows it most exactly.
  void at_node(std::string_view node) {
    if (node_.empty()) node_ = node;
  }
  const std::string& node() const { return node_; }

 private:
  std::string text_, node_;
};

// Converts an exception to an error: kMemory for std::bad_alloc, kInternal for a failed check and all others.
Error error_of(const std::exception_ptr& fault);

// Runs `f`, a function that returns a Result or nothing, at a boundary: an exception that it throws becomes its error.
template <class F, class Returned = std::invoke_result_t<F&>>
std::conditional_t<std::is_void_v<Returned>, Status, Returned> contained(F&& f) {
  try {
    if constexpr (std::is_void_v<Returned>) {
      f();
      return Ok{};
    } else {
      return f();
    }
  } catch (abi::__forced_unwind&) {
    throw;  // the thread is being cancelled
  } catch (...) {
    return error_of(std::current_exception());
  }
}

// Runs `f`; a check that fails in it is rethrown with the return value of `name` as its node.
template <class Name, class F>
std::invoke_result_t<F&> named(Name&& name, F&& f) {
  try {
    return f();
  } catch (InternalFault& fault) {
    fault.at_node(name());
    throw;
  }
}

}  // namespace peri
