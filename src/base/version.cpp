// The version reaches the code as the compile definition PERI_VERSION of this one file.
#include "base/version.hpp"

#include <sys/stat.h>

#include "base/result.hpp"

namespace peri {

std::string_view version() { return PERI_VERSION; }

const std::string& program_identity() {
  static const std::string identity = [] {
    struct stat self = {};
    stat("/proc/self/exe", &self);
    return format("%lld %lld %lld", static_cast<long long>(self.st_size), static_cast<long long>(self.st_mtim.tv_sec),
                  static_cast<long long>(self.st_mtim.tv_nsec));
  }();
  return identity;
}

}  // namespace peri
