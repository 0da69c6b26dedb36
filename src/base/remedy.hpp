// Remedies for errors that carry none, worded for the command line and the library alike.
#pragma once

#include "base/result.hpp"

namespace peri {

// A constant, since memory for a string may be lacking too.
inline constexpr const char* kMemoryRemedy = "give less work at once, or the process more memory";

// Adds the remedy to an error of kind kMemory that has none: the place where memory ran out could not allocate one. An
// error about a size beyond its limit says what is expected, which is enough.
Error with_memory_remedy(Error error);

}  // namespace peri
