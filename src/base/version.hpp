// The version of this build, as the file VERSION states it.
#pragma once

#include <string_view>

namespace peri {

// "major.minor.patch"
std::string_view version();

}  // namespace peri
