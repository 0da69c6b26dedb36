// Code that ran out of memory cannot allocate a remedy; the code that reports the error adds it.
#include "base/remedy.hpp"

namespace peri {

Error with_memory_remedy(Error error) {
  if (error.kind == ErrorKind::kMemory && error.remedy.empty() && error.expected.empty()) error.remedy = kMemoryRemedy;
  return error;
}

}  // namespace peri
