// Pictures as inputs: a .png or .jpg becomes the tensor of an image model by a conversion that is documented, printed,
// and selected by flags. libpng and libjpeg-turbo decode.
#pragma once

#include <array>

#include "base/tensor.hpp"
#include "cli/console/arguments.hpp"

namespace peri::cli {

bool is_picture(const std::string& file);  // by its suffix

enum class Fit { kStretch, kCrop, kNone };

// Conversion of pixels; the defaults scale them to [0, 1].
struct PictureTerms {
  Fit fit = Fit::kStretch;
  std::string layout;  // "nchw", "nhwc"; "": from the input's shape
  std::array<double, 3> mean = {0, 0, 0}, std = {1, 1, 1};
  bool normalised = false;  // --mean or --std is given
};
// From --fit, --layout, --mean and --std.
Result<PictureTerms> picture_terms(const Arguments& arguments);
std::vector<Flag> picture_flags();

struct Picture {
  Tensor tensor;
  std::string done;  // "640x480 to 224x224 (stretched, bilinear), nchw, RGB, (v/255 - mean) / std with ..."
};
// The picture as an input of this type: [N,C,H,W], [N,H,W,C] or without N, C 1 (grey) or 3 (RGB); alpha is removed and
// orientation tags are ignored. `sizes`: -1 for a free axis, which takes the picture's size. Floats are (v / 255 -
// mean) / std; u8 keeps 0 to 255. Errors name the file: kInvalid (damaged), kUnsupported, kUsage.
Result<Picture> read_picture(const std::string& file, DType type, const std::vector<int64_t>& sizes,
                             const PictureTerms& terms);

}  // namespace peri::cli
