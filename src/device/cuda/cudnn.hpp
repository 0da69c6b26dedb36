// Convolutions with their epilogue, and fused attentions, with cuDNN's graphs on one GPU: the library lists its
// engines, a choice is plain numbers that can be stored and reused, and a prepared plan only enqueues.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
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
  bool operator==(const DnnConv&) const = default;
};
// y = softmax(scale * q kᵀ + mask) v of each batch and head, heads of q sharing those of k and v evenly; products and
// softmax in float32, its result rounded to the type once before the second product. Strides are of elements, by batch,
// head, position and depth; the last is 1.
struct DnnAttention {
  DType dtype = DType::kF16;  // of q, k, v and y: f16, bf16
  int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0;
  int64_t depth = 0, value_depth = 0;  // multiples of 8
  std::array<int64_t, 4> q = {}, k = {}, v = {}, y = {};
  float scale = 1;
  DType mask = DType::kInvalid;           // added: f32 or `dtype`; kInvalid: there is none
  std::array<int64_t, 4> mask_dims = {};  // dense, by batch, head, query, key; 1 repeats, except along keys
  bool causal = false;                    // query i sees keys 0 to i
  bool operator==(const DnnAttention&) const = default;
};
using DnnProblem = std::variant<DnnConv, DnnAttention>;
// kRefused for what the library is not asked for.
Status check_problem(const DnnConv& conv);
Status check_problem(const DnnAttention& attention);
// Addresses are multiples of these.
constexpr size_t kDnnAlignment = 16, kDnnWorkspaceAlignment = 256;

// An engine with its knobs, as (type, value).
struct DnnChoice {
  int64_t engine = 0;
  std::vector<std::pair<int64_t, int64_t>> knobs;
  bool operator==(const DnnChoice&) const = default;
};

// Those of the problem's operands are read: x, w, bias, residual; q, k, v, mask.
struct DnnAddresses {
  Address x, w, y, bias, residual, workspace;
  Address q = {}, k = {}, v = {}, mask = {};
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
  // One that plans for the GPU of these properties, which need not be here: JSON as the library writes them
  // (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, since 9.8). What it makes is planned and compiled as there, and never
  // runs: enqueue() is kUnsupported. Errors: as of(); kInvalid for other text.
  static Result<std::shared_ptr<const Cudnn>> planning_for(std::string_view properties);
  virtual const Version& version() const = 0;
  // Of its GPU, as for planning_for().
  virtual Result<std::string> properties() const = 0;
  // At most `most` engines, the fastest first by the library's estimate; none that rounds internally, whose results
  // differ from run to run, or, of a convolution, that is compiled at run time: all of attentions are. make() finds out
  // whether it can be created. kRefused: there is none.
  virtual Result<std::vector<DnnChoice>> choices(const DnnProblem& problem, int most) const = 0;
  // With that choice, or with the library's first that can be created, within this workspace. It may compile, for half
  // a second or more; while one is in use, another of the same problem and choice is the same plan. kRefused: none can.
  virtual Result<std::unique_ptr<const DnnReady>> make(const DnnProblem& problem, const DnnChoice* choice,
                                                       size_t workspace) const = 0;
};

}  // namespace peri::device::cuda
