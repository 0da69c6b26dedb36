// Which vendor libraries this binary is linked with.
#pragma once

#include <string>

namespace peri::kernels::vendor {

// "onednn 3.2.0": the version that runs, which an engine's variants ask for.
std::string onednn_library();

}  // namespace peri::kernels::vendor
