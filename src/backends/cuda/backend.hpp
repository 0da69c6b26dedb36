// An NVIDIA GPU as a backend: regions with a CUDA kernel run there, all others on the host, with copies between.
#pragma once

#include "lower/backend.hpp"

namespace peri::backends::cuda {

const lower::Backend& backend();

}  // namespace peri::backends::cuda
