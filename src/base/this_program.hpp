// The program that runs, as it stands on the disk.
#pragma once

#include <string>

#include "base/result.hpp"

namespace peri {

// Its file. Errors: kIo, where the system does not say.
Result<std::string> program_path();
// "SIZE SECONDS NANOSECONDS" of its file, asked once: what another build of it has made is not taken for its own. Where
// the system does not say, no two processes have the same.
const std::string& program_identity();
// The same of any file, asked now.
std::string file_identity(const std::string& path);

}  // namespace peri
