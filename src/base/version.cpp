// The version reaches the code as the compile definition PERI_VERSION of this one file.
#include "base/version.hpp"

namespace peri {

std::string_view version() { return PERI_VERSION; }

}  // namespace peri
