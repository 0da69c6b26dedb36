// Images of few channels as pairs of pixels, for tiles that are read sixteen bytes at a time.
#pragma once

#include <optional>

#include "kernels/cuda/code/conv_shape.hpp"
#include "kernels/cuda/code/tiles.hpp"

namespace peri::kernels::cuda {

// Of an image whose pixels have at most `most` channels, 8 bytes: copied so into the workspace, two neighbours are one
// pixel of 2 * most channels, and the image has half the width. Windows begin at even pixels, `first` of them before
// the image.
struct ConvPairs {
  ConvShape shape;
  int64_t most = 4, first = 0;
};
std::optional<ConvPairs> conv_pairs_of(const ConvShape& shape, int64_t most);
// The kernel that copies the image at address `x`, of elements of `type`, and what the product states of it; the
// address of the copy, of 16-bit elements. `last`: channels of the image.
std::string conv_pairs_text(const ConvShape& shape, const ConvPairs& pairs, const std::string& type,
                            const std::string& x, bool last, Signature* signature, TiledProduct* product,
                            std::string* copy);
// Rows of output channels in the order of the depth of `pairs`, their elements of `bits`, 8 or 16; those of bytes are
// combined with `turned` by exclusive or.
Result<Tensor> conv_paired_weights(const Tensor& w, const ConvShape& shape, const ConvPairs& pairs, uint8_t turned = 0);
// Of the copy, a guess: see launch.hpp.
double conv_pairs_ms(const ConvShape& shape, int64_t element_bytes);

}  // namespace peri::kernels::cuda
