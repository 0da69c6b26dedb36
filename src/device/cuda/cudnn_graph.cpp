// Tensors and operations of graphs; errors of the library as ours.
#include "device/cuda/cudnn_graph.hpp"

#include <cstring>

namespace peri::device::cuda {

Status check_dnn(const DnnTable& t, int status, const char* call) {
  if (status == kDnnSuccess) return Ok{};
  ErrorKind kind = ErrorKind::kIo;
  if (status >= 2000 && status < kDnnInternal) kind = ErrorKind::kRefused;
  if (status == kDnnNotInitialized) kind = ErrorKind::kUnsupported;
  if (status == kDnnHostMemory) kind = ErrorKind::kMemory;
  const char* const text = t.status_text(status);
  char why[200] = "";
  if (t.last_error) t.last_error(why, sizeof why);
  why[sizeof why - 1] = '\0';
  const std::string reason(why, std::strcspn(why, "\n"));
  Error error(kind, format("cuDNN: %s (%d)%s%s", text ? text : "an unknown status", status, reason.empty() ? "" : ": ",
                           reason.c_str()));
  error.node = call;
  return error;
}

int dnn_type(DType dtype) {
  if (dtype == DType::kF16) return kDnnHalf;
  return dtype == DType::kBF16 ? kDnnBFloat16 : kDnnFloat;
}

Result<DnnDescriptor> DnnOperations::tensor(int64_t id, int type, const DnnSizes& dims, const DnnSizes& strides,
                                            bool inner, bool number) {
  PERI_ASSIGN(const DnnDescriptor out, pool_.make(kDnnTensor));
  PERI_TRY(pool_.set(out, kDnnTensorId, kDnnTypeInt64, id));
  PERI_TRY(pool_.set(out, kDnnTensorType, kDnnTypeDataType, type));
  PERI_TRY(pool_.set(out, kDnnTensorDims, kDnnTypeInt64, std::span<const int64_t>(dims)));
  PERI_TRY(pool_.set(out, kDnnTensorStrides, kDnnTypeInt64, std::span<const int64_t>(strides)));
  PERI_TRY(pool_.set(out, kDnnTensorAlignment, kDnnTypeInt64, int64_t{kDnnAlignment}));
  PERI_TRY(pool_.set(out, kDnnTensorVirtual, kDnnTypeBool, inner));
  if (number) PERI_TRY(pool_.set(out, kDnnTensorByValue, kDnnTypeBool, number));
  PERI_TRY(pool_.finalize(out));
  return out;
}
Result<DnnDescriptor> DnnOperations::outer(int64_t id, int type, const DnnSizes& dims, const DnnSizes& strides) {
  return tensor(id, type, dims, strides, false, false);
}
Result<DnnDescriptor> DnnOperations::number(int64_t id) {
  return tensor(id, kDnnFloat, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true);
}
Result<DnnDescriptor> DnnOperations::inner(int type, const DnnSizes& dims, const DnnSizes& strides) {
  return tensor(next_++, type, dims, strides, true, false);
}

Status DnnOperations::add(DnnDescriptor operation) {
  PERI_TRY(pool_.finalize(operation));
  all_.push_back(operation);
  return Ok{};
}

Status DnnOperations::apply(const Pointwise& what, DnnDescriptor y) {
  PERI_ASSIGN(const DnnDescriptor how, pool_.make(kDnnPointwise));
  PERI_TRY(pool_.set(how, kDnnPointwiseMode, kDnnTypePointwiseMode, what.mode));
  PERI_TRY(pool_.set(how, kDnnPointwisePrecision, kDnnTypeDataType, what.precision));
  if (what.axis >= 0) PERI_TRY(pool_.set(how, kDnnPointwiseAxis, kDnnTypeInt64, what.axis));
  PERI_TRY(pool_.finalize(how));
  PERI_ASSIGN(const DnnDescriptor op, pool_.make(kDnnApply));
  PERI_TRY(pool_.set(op, kDnnApplyHow, kDnnTypeDescriptor, how));
  PERI_TRY(pool_.set(op, kDnnApplyX, kDnnTypeDescriptor, what.x));
  if (what.b) PERI_TRY(pool_.set(op, kDnnApplyB, kDnnTypeDescriptor, what.b));
  if (what.choice) PERI_TRY(pool_.set(op, kDnnApplyChoice, kDnnTypeDescriptor, what.choice));
  PERI_TRY(pool_.set(op, kDnnApplyY, kDnnTypeDescriptor, y));
  return add(op);
}

Status DnnOperations::multiply(DnnDescriptor a, DnnDescriptor b, DnnDescriptor y) {
  PERI_ASSIGN(const DnnDescriptor how, pool_.make(kDnnMatmul));
  PERI_TRY(pool_.set(how, kDnnMatmulPrecision, kDnnTypeDataType, kDnnFloat));
  PERI_TRY(pool_.finalize(how));
  PERI_ASSIGN(const DnnDescriptor op, pool_.make(kDnnMultiply));
  PERI_TRY(pool_.set(op, kDnnMultiplyA, kDnnTypeDescriptor, a));
  PERI_TRY(pool_.set(op, kDnnMultiplyB, kDnnTypeDescriptor, b));
  PERI_TRY(pool_.set(op, kDnnMultiplyY, kDnnTypeDescriptor, y));
  PERI_TRY(pool_.set(op, kDnnMultiplyHow, kDnnTypeDescriptor, how));
  return add(op);
}

Status DnnOperations::reduce(int how_reduced, DnnDescriptor x, DnnDescriptor y) {
  PERI_ASSIGN(const DnnDescriptor how, pool_.make(kDnnReduction));
  PERI_TRY(pool_.set(how, kDnnReductionMode, kDnnTypeReduction, how_reduced));
  PERI_TRY(pool_.set(how, kDnnReductionPrecision, kDnnTypeDataType, kDnnFloat));
  PERI_TRY(pool_.finalize(how));
  PERI_ASSIGN(const DnnDescriptor op, pool_.make(kDnnReduce));
  PERI_TRY(pool_.set(op, kDnnReduceX, kDnnTypeDescriptor, x));
  PERI_TRY(pool_.set(op, kDnnReduceY, kDnnTypeDescriptor, y));
  PERI_TRY(pool_.set(op, kDnnReduceHow, kDnnTypeDescriptor, how));
  return add(op);
}

Result<DnnDescriptor> DnnOperations::graph() {
  PERI_ASSIGN(const DnnDescriptor out, pool_.make(kDnnGraph));
  PERI_TRY(pool_.set(out, kDnnGraphOps, kDnnTypeDescriptor, std::span<const DnnDescriptor>(all_)));
  if (handle_) PERI_TRY(pool_.set(out, kDnnGraphHandle, kDnnTypeHandle, handle_));
  PERI_TRY(pool_.finalize(out));
  return out;
}

}  // namespace peri::device::cuda
