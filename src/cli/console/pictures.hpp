// Pictures as inputs: a .png or .jpg becomes the tensor of an image model by a conversion that is documented, printed,
// and selected by flags. libpng and libjpeg-turbo decode.
#pragma once

#include <array>

#include "base/tensor.hpp"
#include "cli/console/arguments.hpp"

namespace peri::cli {

bool is_picture(const std::string& file);  // by its name

enum class Fit { kStretch, kCrop, kNone };

// What becomes of the pixels; the defaults scale them to 0 to 1.
struct PictureTerms {
  Fit fit = Fit::kStretch;
  std::string layout;  // "nchw", "nhwc"; "": as the input's channels lie
  std::array<double, 3> mean = {0, 0, 0}, std = {1, 1, 1};
  bool normalised = false;  // --mean or --std is given
};
// Of --fit, --layout, --mean and --std.
Result<PictureTerms> picture_terms(const Arguments& arguments);
std::vector<Flag> picture_flags();

struct Picture {
  Tensor tensor;
  std::string done;  // "640x480 to 224x224 (stretched, bilinear), nchw, RGB, (v/255 - mean) / std with ..."
};
// The picture as an input of this type: [N,C,H,W], [N,H,W,C] or without N, C 1 (grey) or 3 (RGB); alpha is left out and
// orientation tags are not followed. `sizes`: -1 for an axis of which nothing is known, which takes the picture's own.
// Floats are (v / 255 - mean) / std; u8 keeps 0 to 255. Errors name the file: kInvalid (damaged), kUnsupported, kUsage.
Result<Picture> read_picture(const std::string& file, DType type, const std::vector<int64_t>& sizes,
                             const PictureTerms& terms);

}  // namespace peri::cli
