// Pixels of a PNG file as its numbers say them, whatever colours it calls them: no curve is applied.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace peri::cli {

struct PngRows {
  int64_t height = 0, width = 0;
  std::vector<float> rgb = {};       // three for each pixel, 0 to 255; of 16 bits with their fractions
  bool wide = false, alpha = false;  // of 16 bits; an alpha was left out
};

// Grey, palettes and few bits become RGB, alpha is removed. `fits` judges the size before memory is taken for it.
// Errors: kInvalid for a broken file, those of `fits`.
Result<PngRows> read_png(std::string_view bytes, Status (*fits)(int64_t width, int64_t height));

}  // namespace peri::cli
