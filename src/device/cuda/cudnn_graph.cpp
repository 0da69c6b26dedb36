// Tensors, operations and the graph of a convolution; errors of the library as ours.
#include "device/cuda/cudnn_graph.hpp"

namespace peri::device::cuda {

Status check_dnn(const DnnTable& t, int status, const char* call) {
  if (status == kDnnSuccess) return Ok{};
  ErrorKind kind = ErrorKind::kIo;
  if (status >= 2000 && status < kDnnInternal) kind = ErrorKind::kRefused;
  if (status == kDnnNotInitialized) kind = ErrorKind::kUnsupported;
  if (status == kDnnHostMemory) kind = ErrorKind::kMemory;
  const char* const text = t.status_text(status);
  Error error(kind, format("cuDNN: %s (%d)", text ? text : "an unknown status", status));
  error.node = call;
  return error;
}

namespace {
int type_of(DType dtype) {
  if (dtype == DType::kF16) return kDnnHalf;
  return dtype == DType::kBF16 ? kDnnBFloat16 : kDnnFloat;
}

class Builder {
 public:
  Builder(DnnPool& pool, DnnHandle handle, const DnnConv& conv) : pool_(pool), handle_(handle), conv_(conv) {}

  // The operations of the convolution; the last writes y.
  Result<DnnDescriptor> graph() {
    const DnnConv& v = conv_;
    PERI_ASSIGN(const DnnDescriptor x, tensor(kDnnX, {v.n, v.c, v.h, v.w}, false));
    PERI_ASSIGN(const DnnDescriptor w, tensor(kDnnW, {v.k, v.c / v.groups, v.r, v.s}, false));
    left_ = int{v.residual} + int{v.bias} + int{v.relu};
    PERI_ASSIGN(DnnDescriptor at, result());
    PERI_TRY(convolve(x, w, at));
    if (v.residual) {
      PERI_ASSIGN(const DnnDescriptor r, tensor(kDnnResidual, {v.n, v.k, v.oh, v.ow}, false));
      PERI_ASSIGN(at, apply(kDnnAdd, at, r));
    }
    if (v.bias) {
      PERI_ASSIGN(const DnnDescriptor b, tensor(kDnnBias, {1, v.k, 1, 1}, false));
      PERI_ASSIGN(at, apply(kDnnAdd, at, b));
    }
    if (v.relu) {
      PERI_ASSIGN(at, apply(kDnnRelu, at, nullptr));
    }
    PERI_ASSIGN(const DnnDescriptor out, pool_.make(kDnnGraph));
    PERI_TRY(pool_.set(out, kDnnGraphOps, kDnnTypeDescriptor, std::span<const DnnDescriptor>(operations_)));
    PERI_TRY(pool_.set(out, kDnnGraphHandle, kDnnTypeHandle, handle_));
    PERI_TRY(pool_.finalize(out));
    return out;
  }

 private:
  // Channels lie next to each other; sizes are named in the order n, c, h, w.
  Result<DnnDescriptor> tensor(int64_t id, std::array<int64_t, 4> dims, bool inner) {
    const std::array<int64_t, 4> strides = {dims[1] * dims[2] * dims[3], 1, dims[1] * dims[3], dims[1]};
    PERI_ASSIGN(const DnnDescriptor out, pool_.make(kDnnTensor));
    PERI_TRY(pool_.set(out, kDnnTensorId, kDnnTypeInt64, id));
    PERI_TRY(pool_.set(out, kDnnTensorType, kDnnTypeDataType, inner ? kDnnFloat : type_of(conv_.dtype)));
    PERI_TRY(pool_.set(out, kDnnTensorDims, kDnnTypeInt64, std::span<const int64_t>(dims)));
    PERI_TRY(pool_.set(out, kDnnTensorStrides, kDnnTypeInt64, std::span<const int64_t>(strides)));
    PERI_TRY(pool_.set(out, kDnnTensorAlignment, kDnnTypeInt64, int64_t{kDnnAlignment}));
    PERI_TRY(pool_.set(out, kDnnTensorVirtual, kDnnTypeBool, inner));
    PERI_TRY(pool_.finalize(out));
    return out;
  }
  // What the next operation writes: y, if it is the last.
  Result<DnnDescriptor> result() {
    const bool inner = left_-- > 0;
    return tensor(inner ? next_++ : int64_t{kDnnY}, {conv_.n, conv_.k, conv_.oh, conv_.ow}, inner);
  }
  Status convolve(DnnDescriptor x, DnnDescriptor w, DnnDescriptor y) {
    const auto pair = [](const std::array<int64_t, 2>& values) { return std::span<const int64_t>(values); };
    PERI_ASSIGN(const DnnDescriptor how, pool_.make(kDnnConvolution));
    PERI_TRY(pool_.set(how, kDnnConvPrecision, kDnnTypeDataType, kDnnFloat));
    PERI_TRY(pool_.set(how, kDnnConvMode, kDnnTypeConvolutionMode, kDnnCrossCorrelation));
    PERI_TRY(pool_.set(how, kDnnConvDims, kDnnTypeInt64, int64_t{2}));
    PERI_TRY(pool_.set(how, kDnnConvDilations, kDnnTypeInt64, pair(conv_.dilation)));
    PERI_TRY(pool_.set(how, kDnnConvStrides, kDnnTypeInt64, pair(conv_.stride)));
    PERI_TRY(pool_.set(how, kDnnConvBefore, kDnnTypeInt64, pair(conv_.before)));
    PERI_TRY(pool_.set(how, kDnnConvAfter, kDnnTypeInt64, pair(conv_.after)));
    PERI_TRY(pool_.finalize(how));
    PERI_ASSIGN(const DnnDescriptor op, pool_.make(kDnnConvolve));
    PERI_TRY(pool_.set(op, kDnnConvolveHow, kDnnTypeDescriptor, how));
    PERI_TRY(pool_.set(op, kDnnConvolveX, kDnnTypeDescriptor, x));
    PERI_TRY(pool_.set(op, kDnnConvolveW, kDnnTypeDescriptor, w));
    PERI_TRY(pool_.set(op, kDnnConvolveY, kDnnTypeDescriptor, y));
    PERI_TRY(pool_.set(op, kDnnConvolveAlpha, kDnnTypeFloat, 1.0f));
    PERI_TRY(pool_.set(op, kDnnConvolveBeta, kDnnTypeFloat, 0.0f));
    PERI_TRY(pool_.finalize(op));
    operations_.push_back(op);
    return Ok{};
  }
  Result<DnnDescriptor> apply(int mode, DnnDescriptor x, DnnDescriptor b) {
    PERI_ASSIGN(const DnnDescriptor how, pool_.make(kDnnPointwise));
    PERI_TRY(pool_.set(how, kDnnPointwiseMode, kDnnTypePointwiseMode, mode));
    PERI_TRY(pool_.set(how, kDnnPointwisePrecision, kDnnTypeDataType, kDnnFloat));
    PERI_TRY(pool_.finalize(how));
    PERI_ASSIGN(const DnnDescriptor y, result());
    PERI_ASSIGN(const DnnDescriptor op, pool_.make(kDnnApply));
    PERI_TRY(pool_.set(op, kDnnApplyHow, kDnnTypeDescriptor, how));
    PERI_TRY(pool_.set(op, kDnnApplyX, kDnnTypeDescriptor, x));
    if (b) PERI_TRY(pool_.set(op, kDnnApplyB, kDnnTypeDescriptor, b));
    PERI_TRY(pool_.set(op, kDnnApplyY, kDnnTypeDescriptor, y));
    PERI_TRY(pool_.finalize(op));
    operations_.push_back(op);
    return y;
  }

  DnnPool& pool_;
  DnnHandle handle_;
  const DnnConv& conv_;
  int left_ = 0;
  int64_t next_ = kDnnInner;
  std::vector<DnnDescriptor> operations_;
};
}  // namespace

Result<DnnDescriptor> dnn_graph(DnnPool& pool, DnnHandle handle, const DnnConv& conv) {
  return Builder(pool, handle, conv).graph();
}

}  // namespace peri::device::cuda
