// Files that may also be pipes, as a process substitution of a shell is one.
#pragma once

#include <string>

#include "base/result.hpp"

namespace peri::cli {

// The bytes of a file, or of an open pipe (/dev/fd/N, /dev/stdin) until its end. Errors: those of read_file(), which
// refuses a FIFO with a name.
Result<std::string> read_file_or_pipe(const std::string& path, size_t max_bytes);

}  // namespace peri::cli
