// The properties of an NVIDIA H200 in cuDNN's own words, with which it plans for one that is not here.
#pragma once

namespace peri::device::tests {

// Written by hand in the JSON of cuDNN 9.19, from what is published of the chip: not read off one. Where there is an
// H200, cuda_dnn_gpu_test.cpp prints what the library says of it and compares.
inline constexpr char kH200Properties[] =
    R"({"deviceName":"NVIDIA H200","cudaDeviceId":0,"deviceVer":900,"driverVer":13000,
"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":132,
"smClockRateKHz":1980000,"memClockRateKHz":3201000,"l2CacheSize":62914560,"warpSize":32,"maxSharedMemoryPerBlock":49152,
"maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"pciDeviceId":0,
"maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"isTccDriver":0,"supportCoopLaunch":1,
"totalGlobalMem":150121545728})";

}  // namespace peri::device::tests
