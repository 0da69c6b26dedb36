// Resampling along one axis: which input elements contribute to an output element, and with what weights (ONNX Resize).
#pragma once

#include "ops/entry.hpp"

namespace peri::ops {

struct Sampling {
  std::string mode, coordinates, nearest;  // the attributes of the op
  double cubic_a = -0.75;
  bool exclude_outside = false, antialias = false;
};
// An error names the attribute for unknown values and for combinations without a meaning.
Result<Sampling> sampling_of(const ir::Node& node);

struct AxisGeometry {
  int64_t in = 1, out = 1;
  double scale = 1;           // output over input, as given or as computed from the sizes
  double start = 0, end = 1;  // region of interest
  bool whole = true;          // not resized: output element k is input element k
};

struct Tap {
  int64_t index;
  double weight;
};
// Taps of every output element along one axis. Elements marked `outside` take the extrapolation value.
struct AxisTaps {
  std::vector<Tap> taps;
  std::vector<size_t> begin;  // out + 1 offsets into taps
  std::vector<char> outside;
  std::vector<double> reach;  // magnitude of the numbers that the coordinate was computed from; empty: it is exact
  std::span<const Tap> at(int64_t o) const {
    return std::span(taps).subspan(begin[static_cast<size_t>(o)],
                                   begin[static_cast<size_t>(o) + 1] - begin[static_cast<size_t>(o)]);
  }
};
AxisTaps axis_taps(const Sampling& s, const AxisGeometry& g);

// Extent of an axis of `in` elements under `scale`: the product computed in float, rounded down.
int64_t scaled_extent(int64_t in, double scale);

}  // namespace peri::ops
