// NVIDIA software and hardware for the doctor: each library with path and version, or the reason why it is not used,
// and each GPU with the target that plans for it use.
#pragma once

#include "base/json.hpp"
#include "cli/console/page.hpp"

namespace peri::cli {

// Prints lines and writes the members `libraries`, `gpus` and, if there is none, `no_gpu`. Opens every library, which
// may take seconds the first time.
void show_nvidia(const Page& page, JsonWriter* w);

}  // namespace peri::cli
