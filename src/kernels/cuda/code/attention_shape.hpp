// An attention's operands by letter, and its mask as text.
#pragma once

#include <array>

#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels::cuda {

// Extents and element strides by letter b, h, s, d of a dense tensor whose axes `word` names.
struct View {
  std::array<int64_t, 4> extent = {1, 1, 1, 1}, stride = {0, 0, 0, 0};
};
Result<View> view_of(const ir::Value& v, const std::string& word);

// What the mask makes of a `score` at b, h, i, j: a statement, "" without one.
Result<std::string> mask_text(const Problem& problem, const View& queries, int64_t keys, Signature* signature);

}  // namespace peri::kernels::cuda
