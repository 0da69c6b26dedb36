// Files that may also be pipes, as a process substitution of a shell is one.
#pragma once

#include <string>

#include "base/result.hpp"

namespace peri::cli {

// The bytes of a file, or of a pipe until its end. Errors: those of read_file().
Result<std::string> read_file_or_pipe(const std::string& path, size_t max_bytes);

}  // namespace peri::cli
