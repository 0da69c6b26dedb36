// Source text of a tiled product; tiles.cpp defines the constants that it uses.
#pragma once

#include <string_view>

namespace peri::kernels::cuda {

std::string_view tiles_head();  // before the product's functions
std::string_view tiles_text();  // after them: the kernel peri_tiles
std::string_view join_text();   // the kernel peri_join_parts

}  // namespace peri::kernels::cuda
