// The text of a tiled product, for numbers that tiles.cpp defines.
#pragma once

#include <string_view>

namespace peri::kernels::cuda {

std::string_view tiles_head();  // before the product's functions
std::string_view tiles_text();  // behind them: the kernel peri_tiles
std::string_view join_text();   // the kernel peri_join_parts

}  // namespace peri::kernels::cuda
