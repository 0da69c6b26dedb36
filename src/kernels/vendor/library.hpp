// The vendor's library that these kernels call, and when it is opened.
#pragma once

#include <string>

#include "base/result.hpp"

namespace peri::kernels::vendor {

// "onednn 3.2.0": the version that peri was built with and runs with, which an engine's variants ask for. It opens
// nothing.
std::string onednn_library();
// Opens it, once for the process; whatever calls it comes after. Any thread. Errors: kUnsupported (it is not there, or
// is another version).
Status open_onednn();

}  // namespace peri::kernels::vendor
