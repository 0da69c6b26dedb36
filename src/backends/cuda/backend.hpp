// A GPU of NVIDIA's as a backend: what has a kernel for it runs there, all else on the host, with copies between.
#pragma once

#include "lower/backend.hpp"

namespace peri::backends::cuda {

const lower::Backend& backend();

}  // namespace peri::backends::cuda
