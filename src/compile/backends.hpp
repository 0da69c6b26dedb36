// The backends of this build, by name.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "lower/backend.hpp"

namespace peri::compile {

// "auto" is the first. kUsage lists those that there are.
Result<const lower::Backend*> backend_named(std::string_view name);
// That of a build: backend_named(), where "auto" is the one of a device that is named. kUsage for a device that there
// is not, or that the backend does not build for.
Result<const lower::Backend*> backend_for(std::string_view backend, std::string_view device);
// Why this machine has nothing to run a backend on, and that another one is here.
Error not_here(Error why, const lower::Backend& backend);
// What a build for it says of its choices: that they are guesses, where nothing is `measured`; kernels from outside of
// which it takes none.
std::vector<std::string> notes_of(const lower::Backend& backend, bool measured);

}  // namespace peri::compile
