// The place that ran out of memory has no room for advice; who hands the error out has.
#include "base/remedy.hpp"

namespace peri {

Error with_memory_remedy(Error error) {
  if (error.kind == ErrorKind::kMemory && error.remedy.empty() && error.expected.empty()) error.remedy = kMemoryRemedy;
  return error;
}

}  // namespace peri
