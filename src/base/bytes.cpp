// One decimal place, which is enough for sizes of memory.
#include "base/bytes.hpp"

#include "base/plural.hpp"
#include "base/result.hpp"

namespace peri {

std::string mib_text(int64_t bytes) {
  return bytes < 1 << 20 ? counted(bytes, "byte") : format("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace peri
