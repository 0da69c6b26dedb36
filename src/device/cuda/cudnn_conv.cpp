// A convolution with what follows it as a graph of cuDNN's.
#include "device/cuda/cudnn_graph.hpp"

namespace peri::device::cuda {

namespace {
class ConvGraph {
 public:
  ConvGraph(DnnPool& pool, DnnHandle handle, const DnnConv& conv) : operations_(pool, handle), conv_(conv) {}

  Result<DnnDescriptor> make() {
    const DnnConv& v = conv_;
    PERI_ASSIGN(const DnnDescriptor x, outer(kDnnX, {v.n, v.c, v.h, v.w}));
    PERI_ASSIGN(const DnnDescriptor w, outer(kDnnW, {v.k, v.c / v.groups, v.r, v.s}));
    left_ = int{v.residual} + int{v.bias} + int{v.relu};
    PERI_ASSIGN(DnnDescriptor at, result());
    PERI_TRY(convolve(x, w, at));
    if (v.residual) {
      PERI_ASSIGN(const DnnDescriptor r, outer(kDnnResidual, {v.n, v.k, v.oh, v.ow}));
      PERI_ASSIGN(at, apply(kDnnAdd, at, r));
    }
    if (v.bias) {
      PERI_ASSIGN(const DnnDescriptor b, outer(kDnnBias, {1, v.k, 1, 1}));
      PERI_ASSIGN(at, apply(kDnnAdd, at, b));
    }
    if (v.relu) {
      PERI_ASSIGN(at, apply(kDnnRelu, at, nullptr));
    }
    return operations_.graph();
  }

 private:
  // Channels lie next to each other; sizes are named in the order n, c, h, w.
  static DnnSizes strides_of(const DnnSizes& d) { return {d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]}; }
  Result<DnnDescriptor> outer(int64_t id, const DnnSizes& dims) {
    return operations_.outer(id, dnn_type(conv_.dtype), dims, strides_of(dims));
  }
  // What the next operation writes: y, if it is the last.
  Result<DnnDescriptor> result() {
    const DnnSizes dims = {conv_.n, conv_.k, conv_.oh, conv_.ow};
    return left_-- > 0 ? operations_.inner(kDnnFloat, dims, strides_of(dims)) : outer(kDnnY, dims);
  }
  Result<DnnDescriptor> apply(int mode, DnnDescriptor x, DnnDescriptor b) {
    PERI_ASSIGN(const DnnDescriptor y, result());
    PERI_TRY(operations_.apply({.mode = mode, .x = x, .b = b}, y));
    return y;
  }
  Status convolve(DnnDescriptor x, DnnDescriptor w, DnnDescriptor y) {
    const auto pair = [](const std::array<int64_t, 2>& values) { return std::span<const int64_t>(values); };
    DnnPool& pool = operations_.pool();
    PERI_ASSIGN(const DnnDescriptor how, pool.make(kDnnConvolution));
    PERI_TRY(pool.set(how, kDnnConvPrecision, kDnnTypeDataType, kDnnFloat));
    PERI_TRY(pool.set(how, kDnnConvMode, kDnnTypeConvolutionMode, kDnnCrossCorrelation));
    PERI_TRY(pool.set(how, kDnnConvDims, kDnnTypeInt64, int64_t{2}));
    PERI_TRY(pool.set(how, kDnnConvDilations, kDnnTypeInt64, pair(conv_.dilation)));
    PERI_TRY(pool.set(how, kDnnConvStrides, kDnnTypeInt64, pair(conv_.stride)));
    PERI_TRY(pool.set(how, kDnnConvBefore, kDnnTypeInt64, pair(conv_.before)));
    PERI_TRY(pool.set(how, kDnnConvAfter, kDnnTypeInt64, pair(conv_.after)));
    PERI_TRY(pool.finalize(how));
    PERI_ASSIGN(const DnnDescriptor op, pool.make(kDnnConvolve));
    PERI_TRY(pool.set(op, kDnnConvolveHow, kDnnTypeDescriptor, how));
    PERI_TRY(pool.set(op, kDnnConvolveX, kDnnTypeDescriptor, x));
    PERI_TRY(pool.set(op, kDnnConvolveW, kDnnTypeDescriptor, w));
    PERI_TRY(pool.set(op, kDnnConvolveY, kDnnTypeDescriptor, y));
    PERI_TRY(pool.set(op, kDnnConvolveAlpha, kDnnTypeFloat, 1.0f));
    PERI_TRY(pool.set(op, kDnnConvolveBeta, kDnnTypeFloat, 0.0f));
    return operations_.add(op);
  }

  DnnOperations operations_;
  const DnnConv& conv_;
  int left_ = 0;
};
}  // namespace

Status check_problem(const DnnConv& v) {
  for (const int64_t size : {v.n, v.c, v.h, v.w, v.k, v.r, v.s, v.oh, v.ow, v.groups})
    if (size < 1 || size > INT32_MAX) return refused("a convolution of %lld", static_cast<long long>(size));
  if (v.c % v.groups != 0 || v.k % v.groups != 0) return refused("channels that groups do not divide");
  if (v.dtype != DType::kF32 && v.dtype != DType::kF16 && v.dtype != DType::kBF16)
    return refused("takes f32, f16 and bf16 only").but_found(std::string(dtype_name(v.dtype)));
  return Ok{};
}

Result<DnnDescriptor> dnn_graph(DnnPool& pool, DnnHandle handle, const DnnConv& conv) {
  return ConvGraph(pool, handle, conv).make();
}

}  // namespace peri::device::cuda
