// What Compress keeps lies on its axis, also where its condition is longer.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace peri::ops {

// `last`: the last position that the condition keeps. Its definition says only what a shorter condition means: this is
// what NumPy and the reference implementation of ONNX make of a longer one.
inline Status check_kept(int64_t last, int64_t length) {
  if (last < length) return Ok{};
  return invalid("the condition of compress keeps an element beyond its axis")
      .expecting("none from " + std::to_string(length) + " on")
      .but_found(std::to_string(last))
      .advise(
          "cut the condition to the axis: ONNX Runtime leaves such elements out, NumPy and ONNX's own code refuse "
          "them");
}

}  // namespace peri::ops
