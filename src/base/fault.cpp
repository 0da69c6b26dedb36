// Throws failed checks, and converts exceptions to errors.
#include "base/fault.hpp"

namespace peri {

InternalFault::InternalFault(const char* file, int line, const char* condition, std::string note)
    : text_(format("internal check failed at %s:%d: %s", file, line, condition)) {
  if (!note.empty()) text_ += ": " + note;
}

Error error_of(const std::exception_ptr& fault) {
  constexpr const char* kRemedy = "this is a fault of peri: please report it with the model and the command or call";
  try {
    std::rethrow_exception(fault);
  } catch (const std::bad_alloc&) {
    // Short, and without a remedy: the text itself needs no memory, and none may be asked for here.
    return Error(ErrorKind::kMemory, "out of memory");
  } catch (const InternalFault& e) {
    return Error(ErrorKind::kInternal, e.what()).at_node(e.node()).advise(kRemedy);
  } catch (const std::exception& e) {
    return internal_error("unexpected failure: %s", e.what()).advise(kRemedy);
  } catch (...) {
    return Error(ErrorKind::kInternal, "unexpected failure").advise(kRemedy);
  }
}

namespace detail {
void check_failed(const char* file, int line, const char* condition, const std::string& note) {
  throw InternalFault(file, line, condition, note);
}
}  // namespace detail

}  // namespace peri
