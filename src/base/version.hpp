// The version of this build, as the file VERSION states it, and what tells builds of one version apart.
#pragma once

#include <string>
#include <string_view>

namespace peri {

// "major.minor.patch"
std::string_view version();
// This very program as it stands on the disk: another build, also of the same version, may do the same in another way.
const std::string& program_identity();

}  // namespace peri
