// Source text of what a thread copies of both operands of a tiled product (tiles.hpp) into shared memory.
#pragma once

#include <string>

namespace peri::kernels::cuda {

std::string tiles_sides_text();

}  // namespace peri::kernels::cuda
