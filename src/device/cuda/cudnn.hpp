// Convolutions with cuDNN's graphs on one GPU, with their epilogue in one plan: the library lists its engines, a choice
// is plain numbers that can be stored and reused, and a prepared plan only enqueues.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "base/dtype.hpp"
#include "device/cuda/cuda.hpp"
#include "device/cuda/cudnn_abi.hpp"

namespace peri::device::cuda {

// y = relu(conv(x, w) + residual + bias), images as NHWC, weights as [k, r, s, c / groups]. Sums in float32, rounded
// once where the result is stored; no TF32. The residual is added before the bias: most engines support both in this
// order.
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

// A prepared plan. Thread-safe.
class DnnReady {
 public:
  virtual ~DnnReady() = default;
  virtual size_t workspace_bytes() const = 0;
  virtual Status enqueue(const DnnAddresses& at, CuStream stream) const = 0;
};

// The library with a handle on a device, which must outlive it. Thread-safe.
class Cudnn {
 public:
  virtual ~Cudnn() = default;
  // The shared instance of this device while it is in use, else a new one. Errors: those of open_library();
  // kUnsupported where it fails to initialise.
  static Result<std::shared_ptr<const Cudnn>> of(CudaDevice& device);
  virtual const Version& version() const = 0;
  // At most `most` engines, the fastest first by the library's estimate; none that rounds internally, whose results
  // differ from run to run, or that is compiled at run time. make() finds out whether it can be created. kRefused:
  // there is none.
  virtual Result<std::vector<DnnChoice>> choices(const DnnConv& conv, int most) const = 0;
  // With that choice, or with the library's first that can be created, within this workspace. It may compile. kRefused:
  // none can.
  virtual Result<std::unique_ptr<const DnnReady>> make(const DnnConv& conv, const DnnChoice* choice,
                                                       size_t workspace) const = 0;
};

}  // namespace peri::device::cuda
