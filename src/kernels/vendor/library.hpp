// The vendor library that these kernels call, and its lazy loading.
#pragma once

#include <string>

#include "base/result.hpp"

namespace peri::kernels::vendor {

// "onednn 3.2.0": the version that peri was built with and runs with, as required by an engine's variants. Does not
// load it.
std::string onednn_library();
// Loads it, once per process; must precede every call. Thread-safe. Errors: kUnsupported (missing, or another version).
Status open_onednn();

}  // namespace peri::kernels::vendor
