// Matrix products with cuBLASLt on one GPU: the library lists its algorithms, a choice is plain numbers that can be
// stored and reused, and a prepared product only enqueues, also during capture.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "device/cuda/blaslt_abi.hpp"
#include "device/cuda/cuda.hpp"

namespace peri::device::cuda {

// d[m,n] = act(alpha * a[m,k] b[k,n] + beta * c[m,n] + bias[n]), all row-major, `batch` times. Sums in float32, no
// TF32.
struct LtMatmul {
  enum class Act : uint8_t { kNone, kRelu, kGeluTanh };
  DType dtype = DType::kF32;  // of all of them: f32, f16, bf16
  int64_t m = 0, n = 0, k = 0, batch = 1;
  bool a_transposed = false, b_transposed = false;  // stored as [k,m], as [n,k]
  int64_t a_stride = 0, b_stride = 0;               // distance between products in elements; 0: the same for all
  float alpha = 1, beta = 0;                        // beta 0: there is no c
  bool bias = false;
  Act act = Act::kNone;
};
// Whether every algorithm keeps the sums in float32 until a single rounding. In 16 bits with a bias or GELU, some for
// rows that are not multiples of 16 bytes do not: they round the sum, and then again (algorithms 16, 23, 24 and 56 of
// 13.1 on an H200; tests/device/cuda_blaslt_gpu_test.cpp).
bool rounds_once(const LtMatmul& product);
// Addresses are multiples of this.
constexpr size_t kLtAlignment = 64, kLtWorkspaceAlignment = 256;

// An algorithm of the library, in its own terms.
struct LtChoice {
  std::array<int64_t, 9> numbers = {};  // in the order of lt_choice_names()
  bool operator==(const LtChoice&) const = default;
};
// "algo", "tile", "split", "reduction", "swizzle", "custom", "stages", "inner", "cluster".
std::span<const std::string_view> lt_choice_names();

struct LtAddresses {
  Address a, b, c, d, bias, workspace;  // c and bias where the product has them
};

// A product with its algorithm. Thread-safe.
class LtReady {
 public:
  virtual ~LtReady() = default;
  virtual size_t workspace_bytes() const = 0;
  virtual Status enqueue(const LtAddresses& at, CuStream stream) const = 0;
};

// The library with a handle on a device, which must outlive it. Thread-safe.
class BlasLt {
 public:
  virtual ~BlasLt() = default;
  // The shared instance of this device while it is in use, else a new one. Errors: those of open_library();
  // kUnsupported where it fails to initialise.
  static Result<std::shared_ptr<const BlasLt>> of(CudaDevice& device);
  virtual const Version& version() const = 0;
  // At most `most` algorithms within this workspace, the fastest first by the library's estimate. kRefused: it has
  // none.
  virtual Result<std::vector<LtChoice>> choices(const LtMatmul& product, size_t workspace, int most) const = 0;
  // With that choice, or with the library's first. kRefused: it does not accept the choice for this product.
  virtual Result<std::unique_ptr<const LtReady>> make(const LtMatmul& product, const LtChoice* choice,
                                                      size_t workspace) const = 0;
};

}  // namespace peri::device::cuda
