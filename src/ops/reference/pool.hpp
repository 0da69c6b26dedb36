// What the pooling ops share: shape inference, sizes of one concrete pooling, the windows for given positions.
#pragma once

#include "ops/shape/window.hpp"

namespace peri::ops {

// Output 0 (and 1, int64) from kernel_shape, strides, dilations, pads, auto_pad, ceil_mode. x: [batch, channels,
// spatial...].
Status infer_pool(InferContext& c);
// Output [batch, channels, 1...].
Status infer_global_pool(InferContext& c);

struct PoolSizes {
  Window window;
  std::vector<int64_t> in, out;                  // spatial dims
  int64_t images = 0, x_image = 0, y_image = 0;  // batch * channels; elements of one image
  explicit PoolSizes(const ir::Node& node);
};

bool pull_pool(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed);
bool pull_global_pool(const ir::Node& node, size_t port, std::span<const int64_t> positions,
                      std::vector<int64_t>* needed);
Cost cost_pool(const ir::Node& node);

}  // namespace peri::ops
