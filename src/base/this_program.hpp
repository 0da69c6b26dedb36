// The executable file of the running program.
#pragma once

#include <string>

#include "base/result.hpp"

namespace peri {

// Its path. Errors: kIo, where the system does not provide it.
Result<std::string> program_path();
// "SIZE SECONDS NANOSECONDS" of the file (size and modification time), read once: data made by another build of the
// program is not reused. Where the system does not provide it, the text is unique to the process.
const std::string& program_identity();
// The same for any file, read now.
std::string file_identity(const std::string& path);

}  // namespace peri
