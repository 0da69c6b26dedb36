// The interface of cuBLASLt's functions, so that no NVIDIA header is needed: numbers and layouts of cublasLt.h of CUDA
// 13.0. tests/device/cuda_abi_test.cpp compares them with that header where it is installed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cuda/abi.hpp"

namespace peri::device::cuda {

using LtHandle = struct LtHandleTag*;
using LtProduct = struct LtProductTag*;  // cublasLtMatmulDesc_t
using LtLayout = struct LtLayoutTag*;    // cublasLtMatrixLayout_t
using LtWishes = struct LtWishesTag*;    // cublasLtMatmulPreference_t

// cublasLtMatmulAlgo_t
struct LtAlgo {
  uint64_t data[8] = {};
};
// cublasLtMatmulHeuristicResult_t
struct LtFound {
  LtAlgo algo;
  size_t workspace_bytes = 0;
  int state = 0;
  float waves = 0;
  int reserved[4] = {};
};

// cublasStatus_t
inline constexpr int kLtSuccess = 0, kLtNotInitialized = 1, kLtAllocFailed = 3, kLtInvalidValue = 7,
                     kLtArchMismatch = 8, kLtNotSupported = 15;
// cudaDataType, cublasComputeType_t, cublasOperation_t
inline constexpr int kLtF32 = 0, kLtF16 = 2, kLtBF16 = 14;
inline constexpr int kLtCompute32 = 68, kLtCompute32Pedantic = 69;
inline constexpr int kLtPlain = 0, kLtTransposed = 1;
// cublasLtMatmulDescAttributes_t, cublasLtEpilogue_t
inline constexpr int kLtTransposeA = 3, kLtTransposeB = 4, kLtEpilogue = 7, kLtBiasPointer = 8, kLtBiasType = 26;
inline constexpr int kLtNoEpilogue = 1, kLtRelu = 2, kLtBias = 4, kLtGelu = 32;
// cublasLtMatrixLayoutAttribute_t
inline constexpr int kLtBatchCount = 5, kLtBatchStride = 6;
// cublasLtMatmulPreferenceAttributes_t, cublasLtReductionScheme_t
inline constexpr int kLtMostWorkspace = 1, kLtReductions = 3, kLtAlignmentA = 5;  // A to D in a row
inline constexpr uint32_t kLtReduceInFloat32 = 2;                                 // ..._COMPUTE_TYPE
// cublasLtMatmulAlgoConfigAttributes_t
inline constexpr int kLtAlgoId = 0, kLtTile = 1, kLtSplit = 2, kLtReduction = 3, kLtSwizzle = 4, kLtCustom = 5,
                     kLtStages = 6, kLtInner = 7, kLtCluster = 8;

}  // namespace peri::device::cuda
