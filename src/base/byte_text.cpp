// The largest unit of which there is one.
#include "base/byte_text.hpp"

#include "base/result.hpp"

namespace peri {

std::string bytes_text(double bytes) {
  const char* unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int k = 0;
  while (bytes >= 1024 && k < 4) {
    bytes /= 1024;
    ++k;
  }
  return format(k == 0 ? "%.0f %s" : "%.1f %s", bytes, unit[k]);
}

}  // namespace peri
