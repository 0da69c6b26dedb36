// The words for what a function of the caller threw.
#include "base/fault_of_caller.hpp"

namespace peri {

Error thrown_by(const char* function, const char* text) {
  return usage("the caller's function '%s' threw an exception%s%s", function, *text ? ": " : "", text)
      .advise("catch it within the function: the library passes no exceptions on");
}

}  // namespace peri
