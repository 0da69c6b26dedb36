// What to do about an error that says nothing of it itself, in words for a command line and for a program alike.
#pragma once

#include "base/result.hpp"

namespace peri {

// Short enough to be handed out where memory for a text is lacking too.
inline constexpr const char* kMemoryRemedy = "give less work at once, or the process more memory";

// Adds it to a lack of memory: the place where memory was out could ask for none. A size beyond its cap says what is
// expected, which is enough.
Error with_memory_remedy(Error error);

}  // namespace peri
