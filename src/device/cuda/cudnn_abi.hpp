// The interface of cuDNN's graph functions, so that no NVIDIA header is needed: numbers of cudnn_graph.h of 9.19.
// tests/device/cuda_abi_test.cpp compares them with that header where it is installed.
#pragma once

#include "device/cuda/abi.hpp"

namespace peri::device::cuda {

using DnnHandle = struct DnnHandleTag*;
using DnnDescriptor = void*;  // cudnnBackendDescriptor_t

// cudnnStatus_t: the thousands digit is the class.
inline constexpr int kDnnSuccess = 0, kDnnNotInitialized = 1001, kDnnNotSupported = 3000, kDnnInternal = 4000,
                     kDnnHostMemory = 4003;
// cudnnDataType_t, cudnnConvolutionMode_t, cudnnPointwiseMode_t, cudnnBackendHeurMode_t
inline constexpr int kDnnFloat = 0, kDnnHalf = 2, kDnnInt32 = 4, kDnnBFloat16 = 9, kDnnBoolean = 11;
inline constexpr int kDnnCrossCorrelation = 1, kDnnAdd = 0, kDnnMul = 1, kDnnDiv = 6, kDnnSub = 9, kDnnExp = 13,
                     kDnnLog = 15, kDnnRelu = 100, kDnnNotLess = 303, kDnnIndex = 501, kDnnSelect = 601;
// cudnnReduceTensorOp_t
inline constexpr int kDnnReduceAdd = 0, kDnnReduceMax = 3;
inline constexpr int kDnnHeurFallback = 2, kDnnHeurA = 3;
// cudnnBackendNumericalNote_t
inline constexpr int kDnnTensorCore = 0, kDnnDownConverts = 1, kDnnNarrowSums = 2, kDnnFft = 3,
                     kDnnNondeterministic = 4, kDnnWinograd = 5, kDnnNoteCount = 10;
// cudnnBackendBehaviorNote_t
inline constexpr int kDnnCompiles = 0, kDnnBehaviorCount = 5;
// cudnnBackendKnobType_t: the number of types, which bounds the knobs of an engine
inline constexpr int kDnnKnobCount = 44;
// cudnnBackendDescriptorType_t
inline constexpr int kDnnPointwise = 0, kDnnConvolution = 1, kDnnEngine = 2, kDnnEngineConfig = 3, kDnnHeuristic = 4,
                     kDnnPlan = 5, kDnnKnobChoice = 7, kDnnConvolve = 10, kDnnApply = 13, kDnnGraph = 15, kDnnPack = 16,
                     kDnnTensor = 17, kDnnMatmul = 18, kDnnMultiply = 19, kDnnReduction = 21, kDnnReduce = 22,
                     kDnnProperties = 38;
// cudnnBackendAttributeType_t
inline constexpr int kDnnTypeHandle = 0, kDnnTypeDataType = 1, kDnnTypeBool = 2, kDnnTypeInt64 = 3, kDnnTypeFloat = 4,
                     kDnnTypePointer = 6, kDnnTypeConvolutionMode = 7, kDnnTypeHeurMode = 8, kDnnTypeKnob = 9,
                     kDnnTypeNote = 11, kDnnTypePointwiseMode = 14, kDnnTypeDescriptor = 15, kDnnTypeReduction = 18,
                     kDnnTypeBehavior = 19, kDnnTypeChar = 24;
// cudnnBackendAttributeName_t
inline constexpr int kDnnPointwiseMode = 0, kDnnPointwisePrecision = 1, kDnnPointwiseAxis = 9, kDnnConvPrecision = 100,
                     kDnnConvMode = 101, kDnnConvDilations = 102, kDnnConvStrides = 103, kDnnConvAfter = 104,
                     kDnnConvBefore = 105, kDnnConvDims = 106, kDnnHeurMode = 200, kDnnHeurGraph = 201,
                     kDnnHeurResults = 202, kDnnHeurProperties = 204, kDnnConfigEngine = 300, kDnnConfigKnobs = 302,
                     kDnnPlanHandle = 400, kDnnPlanConfig = 401, kDnnPlanWorkspace = 402, kDnnKnobType = 600,
                     kDnnKnobValue = 601, kDnnConvolveAlpha = 700, kDnnConvolveBeta = 701, kDnnConvolveHow = 702,
                     kDnnConvolveW = 703, kDnnConvolveX = 704, kDnnConvolveY = 705, kDnnApplyHow = 750,
                     kDnnApplyX = 751, kDnnApplyB = 752, kDnnApplyY = 753, kDnnApplyChoice = 758, kDnnGraphHandle = 800,
                     kDnnGraphOps = 801, kDnnTensorAlignment = 900, kDnnTensorType = 901, kDnnTensorDims = 902,
                     kDnnTensorStrides = 903, kDnnTensorId = 906, kDnnTensorVirtual = 907, kDnnTensorByValue = 908,
                     kDnnPackIds = 1000, kDnnPackPointers = 1001, kDnnPackWorkspace = 1003, kDnnEngineGraph = 1300,
                     kDnnEngineIndex = 1301, kDnnEngineNotes = 1303, kDnnEngineBehavior = 1305,
                     kDnnEngineProperties = 1307, kDnnMatmulPrecision = 1500, kDnnMultiplyA = 1520,
                     kDnnMultiplyB = 1521, kDnnMultiplyY = 1522, kDnnMultiplyHow = 1523, kDnnReductionMode = 1600,
                     kDnnReductionPrecision = 1601, kDnnReduceX = 1610, kDnnReduceY = 1611, kDnnReduceHow = 1612,
                     kDnnPropertiesHandle = 2701, kDnnPropertiesJson = 2702;

}  // namespace peri::device::cuda
