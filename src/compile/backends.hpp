// The backends of this build, by name.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "lower/backend.hpp"

namespace peri::compile {

// "auto" is the first. kUsage lists the known names.
Result<const lower::Backend*> backend_named(std::string_view name);
// The backend of a build: backend_named(), where "auto" with a device name is that device's. kUsage for a device that
// does not exist, or that the backend does not build for.
Result<const lower::Backend*> backend_for(std::string_view backend, std::string_view device);
// The backend that computes on GPUs, or on the host: for those who know a device only as one of these.
std::string_view backend_of_kind(bool gpu);
// The error that this machine cannot run a backend, with a hint at one that it can. `device`: as asked for.
Error not_here(Error why, const lower::Backend& backend, std::string_view device);
// Notes of a build about its choices: that they are estimates, where nothing is `measured`; outside kernels that it
// cannot use.
std::vector<std::string> notes_of(const lower::Backend& backend, bool measured);

}  // namespace peri::compile
