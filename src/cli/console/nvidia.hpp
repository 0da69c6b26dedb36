// NVIDIA software and hardware for the doctor: each library with path and version, or why it is not used, and each GPU
// with the target that plans for it use.
#pragma once

#include "base/json.hpp"
#include "cli/console/page.hpp"

namespace peri::cli {

// Lines on the page, and the members `libraries`, `gpus` and, where there is none, `no_gpu` of an object. Opens every
// library, which takes up to seconds where they were never read before.
void show_nvidia(const Page& page, JsonWriter* w);

}  // namespace peri::cli
