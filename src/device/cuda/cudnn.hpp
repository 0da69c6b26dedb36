// Convolutions with cuDNN's graphs on one GPU, with their epilogue in one plan: the library lists its engines, a choice
// is plain numbers that can be stored and used again, and a prepared plan only enqueues.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "base/dtype.hpp"
#include "device/cuda/cuda.hpp"
#include "device/cuda/cudnn_abi.hpp"

namespace peri::device::cuda {

// y = relu(conv(x, w) + residual + bias), images as NHWC, weights as [k, r, s, c / groups]. Sums in float32, rounded
// once where the result is stored; no TF32. The residual is added before the bias: in this order most engines take
// both.
struct DnnConv {
  DType dtype = DType::kF16;                                // of all of them: f32, f16, bf16
  int64_t n = 0, c = 0, h = 0, w = 0, k = 0, r = 0, s = 0;  // batch, channels, image; results, window
  int64_t oh = 0, ow = 0, groups = 1;
  std::array<int64_t, 2> stride = {1, 1}, dilation = {1, 1}, before = {}, after = {};  // padding at the two ends
  bool bias = false, residual = false, relu = false;
};
// Addresses are multiples of these.
constexpr size_t kDnnAlignment = 16, kDnnWorkspaceAlignment = 256;

// An engine with its knobs, as (type, value).
struct DnnChoice {
  int64_t engine = 0;
  std::vector<std::pair<int64_t, int64_t>> knobs;
  bool operator==(const DnnChoice&) const = default;
};

struct DnnAddresses {
  Address x, w, y, bias, residual, workspace;
};

// Any thread.
class DnnReady {
 public:
  virtual ~DnnReady() = default;
  virtual size_t workspace_bytes() const = 0;
  virtual Status enqueue(const DnnAddresses& at, CuStream stream) const = 0;
};

// The library with a handle on a device, which outlives it. Any thread.
class Cudnn {
 public:
  virtual ~Cudnn() = default;
  // The one of this device while anybody holds it, else opened now. Errors: those of open_library(); kUnsupported where
  // it does not start.
  static Result<std::shared_ptr<const Cudnn>> of(CudaDevice& device);
  virtual const Version& version() const = 0;
  // At most `most` engines, those first that the library takes for the fastest; none that rounds inside, whose bits
  // differ from run to run, or that is compiled at run time. Whether it can be made, make() says. kRefused: there is
  // none.
  virtual Result<std::vector<DnnChoice>> choices(const DnnConv& conv, int most) const = 0;
  // By that choice, or by the first of the library's that can be made, within so much workspace. It may compile.
  // kRefused: none can.
  virtual Result<std::unique_ptr<const DnnReady>> make(const DnnConv& conv, const DnnChoice* choice,
                                                       size_t workspace) const = 0;
};

}  // namespace peri::device::cuda
