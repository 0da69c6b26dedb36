// The interface of the driver's functions, so that no NVIDIA header is needed: layouts and numbers of cuda.h of CUDA
// 13.0, which later drivers keep. tests/device/cuda_abi_test.cpp compares them with that header where it is
// installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace peri::device::cuda {

using CuResult = int;        // enum CUresult
using CuDevice = int;        // CUdevice
using CuAddress = uint64_t;  // CUdeviceptr
using CuContext = struct CuContextTag*;
using CuStream = struct CuStreamTag*;
using CuEvent = struct CuEventTag*;
using CuPool = struct CuPoolTag*;
using CuGraph = struct CuGraphTag*;
using CuGraphExec = struct CuGraphExecTag*;
using CuGraphNode = struct CuGraphNodeTag*;
using CuLibrary = struct CuLibraryTag*;
using CuKernel = struct CuKernelTag*;  // a CUkernel; a launch takes it as a CUfunction

// enum CUresult
inline constexpr CuResult kCuSuccess = 0, kCuOutOfMemory = 2, kCuStubLibrary = 34, kCuDeviceUnavailable = 46,
                          kCuNoDevice = 100, kCuInvalidDevice = 101, kCuInvalidImage = 200, kCuNoBinaryForGpu = 209,
                          kCuEccUncorrectable = 214, kCuNvlinkUncorrectable = 220, kCuContained = 226,
                          kCuNotFound = 500, kCuIllegalAddress = 700, kCuLaunchTimeout = 702,
                          kCuContextIsDestroyed = 709, kCuAssert = 710, kCuHardwareStackError = 714,
                          kCuIllegalInstruction = 715, kCuMisalignedAddress = 716, kCuInvalidAddressSpace = 717,
                          kCuInvalidPc = 718, kCuLaunchFailed = 719, kCuTensorMemoryLeak = 721, kCuNotSupported = 801,
                          kCuCaptureInvalidated = 901, kCuSystemNotReady = 802, kCuSystemDriverMismatch = 803,
                          kCuCompatNotSupported = 804, kCuGraphUpdateFailure = 910, kCuExternalDevice = 911;

// enum CUdevice_attribute
inline constexpr int kCuClockKhz = 13, kCuMultiprocessors = 16, kCuMemoryClockKhz = 36, kCuBusBits = 37,
                     kCuL2Bytes = 38, kCuCapabilityMajor = 75, kCuCapabilityMinor = 76, kCuSharedPerBlockOptin = 97,
                     kCuPools = 115;
// enum CUfunction_attribute
inline constexpr int kCuMaxThreads = 0, kCuSharedBytes = 1, kCuLocalBytes = 3, kCuRegisters = 4,
                     kCuMaxDynamicSharedBytes = 8;
// enum CUjit_option: CU_JIT_ERROR_LOG_BUFFER, ..._SIZE_BYTES
inline constexpr int kCuErrorLog = 5, kCuErrorLogBytes = 6;
// enum CUmemPool_attribute
inline constexpr int kCuReuseOpportunistic = 2, kCuReuseInternalDependencies = 3, kCuReleaseThreshold = 4,
                     kCuReservedCurrent = 5, kCuUsedCurrent = 7;
// enum CUpointer_attribute, CU_MEMORYTYPE_DEVICE
inline constexpr int kCuPointerMemoryType = 2, kCuPointerOrdinal = 9, kCuPointerRangeStart = 11,
                     kCuPointerRangeBytes = 12;
inline constexpr unsigned kCuMemoryOfDevice = 2;
// CU_STREAM_NON_BLOCKING, CU_EVENT_DEFAULT, CU_EVENT_DISABLE_TIMING, CU_MEMHOSTALLOC_PORTABLE,
// CU_STREAM_CAPTURE_MODE_RELAXED
inline constexpr unsigned kCuNonBlocking = 1, kCuEventDefault = 0, kCuEventDisableTiming = 2, kCuPortable = 1;
inline constexpr int kCuCaptureRelaxed = 2;

// struct CUmemPoolProps_st with CU_MEM_ALLOCATION_TYPE_PINNED and CU_MEM_LOCATION_TYPE_DEVICE
struct CuPoolProps {
  int allocation = 1, handles = 0, location = 1, device = 0;
  void* security = nullptr;
  size_t max_bytes = 0;  // 0: as much as there is
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
};

// struct CUgraphExecUpdateResultInfo_st
struct CuUpdateResult {
  int result = 0;
  CuGraphNode node = nullptr, from = nullptr;
};

// struct CUlaunchAttribute_st: CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, ..._PROGRAMMATIC_STREAM_SERIALIZATION
inline constexpr int kCuClusterDimension = 4, kCuProgrammaticSerialization = 6;
struct CuLaunchAttribute {
  int id = 0;
  char pad[4] = {};
  union {
    char bytes[64] = {};
    unsigned cluster[3];
    int allowed;
  } value;
};
// struct CUlaunchConfig_st
struct CuLaunchConfig {
  unsigned blocks[3] = {1, 1, 1}, threads[3] = {1, 1, 1}, shared_bytes = 0;
  CuStream stream = nullptr;
  CuLaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

}  // namespace peri::device::cuda
