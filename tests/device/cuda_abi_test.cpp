// Our declarations of the types of driver, cuBLASLt and cuDNN against NVIDIA's own header, where this machine has one.
#include "device/cuda/abi.hpp"

#include <gtest/gtest.h>

#if __has_include("/usr/local/cuda/include/cuda.h")
#include "/usr/local/cuda/include/cuda.h"

namespace peri::device::cuda {
namespace {
static_assert(sizeof(CuAddress) == sizeof(CUdeviceptr) && sizeof(CuDevice) == sizeof(CUdevice));
static_assert(sizeof(CuPoolProps) == sizeof(CUmemPoolProps));
static_assert(offsetof(CuPoolProps, allocation) == offsetof(CUmemPoolProps, allocType));
static_assert(offsetof(CuPoolProps, location) == offsetof(CUmemPoolProps, location));
static_assert(offsetof(CuPoolProps, device) == offsetof(CUmemPoolProps, location) + offsetof(CUmemLocation, id));
static_assert(offsetof(CuPoolProps, max_bytes) == offsetof(CUmemPoolProps, maxSize));
static_assert(sizeof(CuUpdateResult) == sizeof(CUgraphExecUpdateResultInfo));
static_assert(sizeof(CuLaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(CuLaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(CuLaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(CuLaunchConfig, threads) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(CuLaunchConfig, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(CuLaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(CuLaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(CuLaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));

TEST(CudaAbi, NumbersAreThoseOfTheHeader) {
  const std::pair<int, int> numbers[] = {
      {kCuSuccess, CUDA_SUCCESS},
      {kCuOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY},
      {kCuStubLibrary, CUDA_ERROR_STUB_LIBRARY},
      {kCuDeviceUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE},
      {kCuNoDevice, CUDA_ERROR_NO_DEVICE},
      {kCuInvalidDevice, CUDA_ERROR_INVALID_DEVICE},
      {kCuInvalidImage, CUDA_ERROR_INVALID_IMAGE},
      {kCuNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU},
      {kCuEccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE},
      {kCuNvlinkUncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE},
      {kCuContained, 226},  // CUDA_ERROR_CONTAINED, from 13.0 on
      {kCuNotFound, CUDA_ERROR_NOT_FOUND},
      {kCuIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS},
      {kCuLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT},
      {kCuContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED},
      {kCuAssert, CUDA_ERROR_ASSERT},
      {kCuHardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR},
      {kCuIllegalInstruction, CUDA_ERROR_ILLEGAL_INSTRUCTION},
      {kCuMisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS},
      {kCuInvalidAddressSpace, CUDA_ERROR_INVALID_ADDRESS_SPACE},
      {kCuInvalidPc, CUDA_ERROR_INVALID_PC},
      {kCuLaunchFailed, CUDA_ERROR_LAUNCH_FAILED},
      {kCuTensorMemoryLeak, 721},  // CUDA_ERROR_TENSOR_MEMORY_LEAK, from 12.9 on
      {kCuNotSupported, CUDA_ERROR_NOT_SUPPORTED},
      {kCuSystemNotReady, CUDA_ERROR_SYSTEM_NOT_READY},
      {kCuSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH},
      {kCuCompatNotSupported, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE},
      {kCuGraphUpdateFailure, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE},
      {kCuExternalDevice, CUDA_ERROR_EXTERNAL_DEVICE},
      {kCuPointerMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE},
      {kCuPointerOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL},
      {kCuPointerRangeStart, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR},
      {kCuPointerRangeBytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE},
      {static_cast<int>(kCuMemoryOfDevice), CU_MEMORYTYPE_DEVICE},
      {kCuClockKhz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
      {kCuMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
      {kCuMemoryClockKhz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE},
      {kCuBusBits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
      {kCuL2Bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
      {kCuCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
      {kCuCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
      {kCuSharedPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
      {kCuPools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
      {kCuMaxThreads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
      {kCuSharedBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES},
      {kCuLocalBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES},
      {kCuRegisters, CU_FUNC_ATTRIBUTE_NUM_REGS},
      {kCuMaxDynamicSharedBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES},
      {kCuReuseOpportunistic, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC},
      {kCuReuseInternalDependencies, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES},
      {kCuReleaseThreshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD},
      {kCuReservedCurrent, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT},
      {kCuUsedCurrent, CU_MEMPOOL_ATTR_USED_MEM_CURRENT},
      {kCuNonBlocking, CU_STREAM_NON_BLOCKING},
      {kCuEventDefault, CU_EVENT_DEFAULT},
      {kCuEventDisableTiming, CU_EVENT_DISABLE_TIMING},
      {kCuPortable, CU_MEMHOSTALLOC_PORTABLE},
      {kCuCaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED},
      {CuPoolProps{}.allocation, CU_MEM_ALLOCATION_TYPE_PINNED},
      {CuPoolProps{}.location, CU_MEM_LOCATION_TYPE_DEVICE},
      {kCuClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION},
      {kCuProgrammaticSerialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION},
  };
  for (const auto& [ours, theirs] : numbers) EXPECT_EQ(ours, theirs);
}
}  // namespace
}  // namespace peri::device::cuda
#else
TEST(CudaAbi, NumbersAreThoseOfTheHeader) { GTEST_SKIP() << "this machine has no cuda.h"; }
#endif

#if __has_include("/usr/local/cuda/include/cublasLt.h")
#include "/usr/local/cuda/include/cublasLt.h"
#include "device/cuda/blaslt_abi.hpp"

namespace peri::device::cuda {
namespace {
static_assert(sizeof(LtAlgo) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(LtFound) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(LtFound, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(LtFound, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));

TEST(BlasLtAbi, NumbersAreThoseOfTheHeader) {
  const std::pair<int, int> numbers[] = {
      {kLtSuccess, CUBLAS_STATUS_SUCCESS},
      {kLtNotInitialized, CUBLAS_STATUS_NOT_INITIALIZED},
      {kLtAllocFailed, CUBLAS_STATUS_ALLOC_FAILED},
      {kLtInvalidValue, CUBLAS_STATUS_INVALID_VALUE},
      {kLtArchMismatch, CUBLAS_STATUS_ARCH_MISMATCH},
      {kLtNotSupported, CUBLAS_STATUS_NOT_SUPPORTED},
      {kLtF32, CUDA_R_32F},
      {kLtF16, CUDA_R_16F},
      {kLtBF16, CUDA_R_16BF},
      {kLtCompute32, CUBLAS_COMPUTE_32F},
      {kLtCompute32Pedantic, CUBLAS_COMPUTE_32F_PEDANTIC},
      {kLtPlain, CUBLAS_OP_N},
      {kLtTransposed, CUBLAS_OP_T},
      {kLtTransposeA, CUBLASLT_MATMUL_DESC_TRANSA},
      {kLtTransposeB, CUBLASLT_MATMUL_DESC_TRANSB},
      {kLtEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE},
      {kLtBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER},
      {kLtBiasType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE},
      {kLtNoEpilogue, CUBLASLT_EPILOGUE_DEFAULT},
      {kLtRelu, CUBLASLT_EPILOGUE_RELU},
      {kLtBias, CUBLASLT_EPILOGUE_BIAS},
      {kLtRelu | kLtBias, CUBLASLT_EPILOGUE_RELU_BIAS},
      {kLtGelu, CUBLASLT_EPILOGUE_GELU},
      {kLtGelu | kLtBias, CUBLASLT_EPILOGUE_GELU_BIAS},
      {kLtBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT},
      {kLtBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET},
      {kLtMostWorkspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES},
      {kLtReductions, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK},
      {kLtAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES},
      {kLtAlignmentA + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES},
      {kLtReduceInFloat32, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE},
      {kLtAlgoId, CUBLASLT_ALGO_CONFIG_ID},
      {kLtTile, CUBLASLT_ALGO_CONFIG_TILE_ID},
      {kLtSplit, CUBLASLT_ALGO_CONFIG_SPLITK_NUM},
      {kLtReduction, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME},
      {kLtSwizzle, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING},
      {kLtCustom, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION},
      {kLtStages, CUBLASLT_ALGO_CONFIG_STAGES_ID},
      {kLtInner, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID},
      {kLtCluster, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID},
  };
  for (const auto& [ours, theirs] : numbers) EXPECT_EQ(ours, theirs);
}
}  // namespace
}  // namespace peri::device::cuda
#else
TEST(BlasLtAbi, NumbersAreThoseOfTheHeader) { GTEST_SKIP() << "this machine has no cublasLt.h"; }
#endif

#if __has_include("/usr/local/cuda/include/cudnn_graph.h")
#include "/usr/local/cuda/include/cudnn_graph.h"
#include "device/cuda/cudnn_abi.hpp"

namespace peri::device::cuda {
namespace {
void expect_same(std::initializer_list<std::pair<int, int>> numbers) {
  for (const auto& [ours, theirs] : numbers) EXPECT_EQ(ours, theirs);
}

TEST(CudnnAbi, NumbersAreThoseOfTheHeader) {
  expect_same({
      {kDnnSuccess, CUDNN_STATUS_SUCCESS},
      {kDnnNotInitialized, CUDNN_STATUS_NOT_INITIALIZED},
      {kDnnNotSupported, CUDNN_STATUS_NOT_SUPPORTED},
      {kDnnInternal, CUDNN_STATUS_INTERNAL_ERROR},
      {kDnnHostMemory, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED},
      {kDnnFloat, CUDNN_DATA_FLOAT},
      {kDnnHalf, CUDNN_DATA_HALF},
      {kDnnBFloat16, CUDNN_DATA_BFLOAT16},
      {kDnnCrossCorrelation, CUDNN_CROSS_CORRELATION},
      {kDnnAdd, CUDNN_POINTWISE_ADD},
      {kDnnRelu, CUDNN_POINTWISE_RELU_FWD},
      {kDnnHeurFallback, CUDNN_HEUR_MODE_FALLBACK},
      {kDnnHeurA, CUDNN_HEUR_MODE_A},
      {kDnnTensorCore, CUDNN_NUMERICAL_NOTE_TENSOR_CORE},
      {kDnnDownConverts, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS},
      {kDnnNarrowSums, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION},
      {kDnnFft, CUDNN_NUMERICAL_NOTE_FFT},
      {kDnnNondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC},
      {kDnnWinograd, CUDNN_NUMERICAL_NOTE_WINOGRAD},
      {kDnnNoteCount, CUDNN_NUMERICAL_NOTE_TYPE_COUNT},
      {kDnnCompiles, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION},
      {kDnnBehaviorCount, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT},
      {kDnnTypeBehavior, CUDNN_TYPE_BEHAVIOR_NOTE},
      {kDnnEngineBehavior, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE},
      {kDnnKnobCount, CUDNN_KNOB_TYPE_COUNTS},
      {kDnnPointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR},
      {kDnnConvolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR},
      {kDnnEngine, CUDNN_BACKEND_ENGINE_DESCRIPTOR},
      {kDnnEngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR},
      {kDnnHeuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR},
      {kDnnPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR},
      {kDnnKnobChoice, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR},
      {kDnnConvolve, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR},
      {kDnnApply, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR},
      {kDnnGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR},
      {kDnnPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR},
      {kDnnTensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR},
      {kDnnTypeHandle, CUDNN_TYPE_HANDLE},
      {kDnnTypeDataType, CUDNN_TYPE_DATA_TYPE},
      {kDnnTypeBool, CUDNN_TYPE_BOOLEAN},
      {kDnnTypeInt64, CUDNN_TYPE_INT64},
      {kDnnTypeFloat, CUDNN_TYPE_FLOAT},
      {kDnnTypePointer, CUDNN_TYPE_VOID_PTR},
      {kDnnTypeConvolutionMode, CUDNN_TYPE_CONVOLUTION_MODE},
      {kDnnTypeHeurMode, CUDNN_TYPE_HEUR_MODE},
      {kDnnTypeKnob, CUDNN_TYPE_KNOB_TYPE},
      {kDnnTypeNote, CUDNN_TYPE_NUMERICAL_NOTE},
      {kDnnTypePointwiseMode, CUDNN_TYPE_POINTWISE_MODE},
      {kDnnTypeDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR},
  });
}

TEST(CudnnAbi, AttributesAreThoseOfTheHeader) {
  expect_same({
      {kDnnPointwiseMode, CUDNN_ATTR_POINTWISE_MODE},
      {kDnnPointwisePrecision, CUDNN_ATTR_POINTWISE_MATH_PREC},
      {kDnnConvPrecision, CUDNN_ATTR_CONVOLUTION_COMP_TYPE},
      {kDnnConvMode, CUDNN_ATTR_CONVOLUTION_CONV_MODE},
      {kDnnConvDilations, CUDNN_ATTR_CONVOLUTION_DILATIONS},
      {kDnnConvStrides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES},
      {kDnnConvAfter, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS},
      {kDnnConvBefore, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS},
      {kDnnConvDims, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS},
      {kDnnHeurMode, CUDNN_ATTR_ENGINEHEUR_MODE},
      {kDnnHeurGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH},
      {kDnnHeurResults, CUDNN_ATTR_ENGINEHEUR_RESULTS},
      {kDnnConfigEngine, CUDNN_ATTR_ENGINECFG_ENGINE},
      {kDnnConfigKnobs, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES},
      {kDnnPlanHandle, 400},  // CUDNN_ATTR_EXECUTION_PLAN_HANDLE, which the header deprecates
      {kDnnPlanConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG},
      {kDnnPlanWorkspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE},
      {kDnnKnobType, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE},
      {kDnnKnobValue, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE},
      {kDnnConvolveAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA},
      {kDnnConvolveBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
      {kDnnConvolveHow, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC},
      {kDnnConvolveW, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W},
      {kDnnConvolveX, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X},
      {kDnnConvolveY, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
      {kDnnApplyHow, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR},
      {kDnnApplyX, CUDNN_ATTR_OPERATION_POINTWISE_XDESC},
      {kDnnApplyB, CUDNN_ATTR_OPERATION_POINTWISE_BDESC},
      {kDnnApplyY, CUDNN_ATTR_OPERATION_POINTWISE_YDESC},
      {kDnnGraphHandle, 800},  // CUDNN_ATTR_OPERATIONGRAPH_HANDLE, which the header deprecates
      {kDnnGraphOps, CUDNN_ATTR_OPERATIONGRAPH_OPS},
      {kDnnTensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT},
      {kDnnTensorType, CUDNN_ATTR_TENSOR_DATA_TYPE},
      {kDnnTensorDims, CUDNN_ATTR_TENSOR_DIMENSIONS},
      {kDnnTensorStrides, CUDNN_ATTR_TENSOR_STRIDES},
      {kDnnTensorId, CUDNN_ATTR_TENSOR_UNIQUE_ID},
      {kDnnTensorVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL},
      {kDnnPackIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS},
      {kDnnPackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS},
      {kDnnPackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE},
      {kDnnEngineGraph, CUDNN_ATTR_ENGINE_OPERATION_GRAPH},
      {kDnnEngineIndex, CUDNN_ATTR_ENGINE_GLOBAL_INDEX},
      {kDnnEngineNotes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE},
  });
}

TEST(CudnnAbi, WhatAttentionsAndPlansWithoutAGpuNeedIsThatOfTheHeader) {
  expect_same({
      {kDnnInt32, CUDNN_DATA_INT32},
      {kDnnBoolean, CUDNN_DATA_BOOLEAN},
      {kDnnMul, CUDNN_POINTWISE_MUL},
      {kDnnDiv, CUDNN_POINTWISE_DIV},
      {kDnnSub, CUDNN_POINTWISE_SUB},
      {kDnnExp, CUDNN_POINTWISE_EXP},
      {kDnnLog, CUDNN_POINTWISE_LOG},
      {kDnnNotLess, CUDNN_POINTWISE_CMP_GE},
      {kDnnIndex, CUDNN_POINTWISE_GEN_INDEX},
      {kDnnSelect, CUDNN_POINTWISE_BINARY_SELECT},
      {kDnnReduceAdd, CUDNN_REDUCE_TENSOR_ADD},
      {kDnnReduceMax, CUDNN_REDUCE_TENSOR_MAX},
      {kDnnMatmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR},
      {kDnnMultiply, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR},
      {kDnnReduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR},
      {kDnnReduce, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR},
      {kDnnProperties, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR},
      {kDnnTypeReduction, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE},
      {kDnnTypeChar, CUDNN_TYPE_CHAR},
      {kDnnPointwiseAxis, CUDNN_ATTR_POINTWISE_AXIS},
      {kDnnHeurProperties, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP},
      {kDnnApplyChoice, CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
      {kDnnTensorByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE},
      {kDnnEngineProperties, CUDNN_ATTR_ENGINE_DEVICEPROP},
      {kDnnMatmulPrecision, CUDNN_ATTR_MATMUL_COMP_TYPE},
      {kDnnMultiplyA, CUDNN_ATTR_OPERATION_MATMUL_ADESC},
      {kDnnMultiplyB, CUDNN_ATTR_OPERATION_MATMUL_BDESC},
      {kDnnMultiplyY, CUDNN_ATTR_OPERATION_MATMUL_CDESC},
      {kDnnMultiplyHow, CUDNN_ATTR_OPERATION_MATMUL_DESC},
      {kDnnReductionMode, CUDNN_ATTR_REDUCTION_OPERATOR},
      {kDnnReductionPrecision, CUDNN_ATTR_REDUCTION_COMP_TYPE},
      {kDnnReduceX, CUDNN_ATTR_OPERATION_REDUCTION_XDESC},
      {kDnnReduceY, CUDNN_ATTR_OPERATION_REDUCTION_YDESC},
      {kDnnReduceHow, CUDNN_ATTR_OPERATION_REDUCTION_DESC},
      {kDnnPropertiesHandle, CUDNN_ATTR_DEVICEPROP_HANDLE},
      {kDnnPropertiesJson, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION},
  });
}
}  // namespace
}  // namespace peri::device::cuda
#else
TEST(CudnnAbi, NumbersAreThoseOfTheHeader) { GTEST_SKIP() << "this machine has no cudnn_graph.h"; }
#endif
