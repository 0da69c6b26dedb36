// The CPU as a backend: kernels that run as tasks of a thread pool, changes of layout at their measured time.
#pragma once

#include "lower/backend.hpp"

namespace peri::backends::cpu {

const lower::Backend& backend();

}  // namespace peri::backends::cpu
