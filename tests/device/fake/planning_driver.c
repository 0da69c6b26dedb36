// A driver with no GPU, with which cuDNN plans and compiles for one that is not here: it opens libcuda.so.1 for the
// engines that it compiles, and asks nothing of it but to take the code that it made. Nothing runs.
// soname: libcuda.so.1
#include <stddef.h>

enum { kSuccess = 0, kNoDevice = 100 };

// Code that was loaded so far.
static _Atomic long loaded;
long fake_planned(void) { return loaded; }

int cuLibraryLoadData(void** library, const void* code) {
  static char there;
  if (!code) return kNoDevice;
  ++loaded;
  *library = &there;
  return kSuccess;
}
int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  *kernel = library;
  return kSuccess;
}
int cuLibraryUnload(void* library) { return kSuccess; }
int cuKernelSetAttribute(int attribute, int value, void* kernel, int device) { return kSuccess; }
int cuGetErrorName(int error, const char** text) {
  *text = "NO_DEVICE";
  return kSuccess;
}
int cuGetErrorString(int error, const char** text) {
  *text = "a driver without a GPU";
  return kSuccess;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}

// What it resolves when it opens a driver (9.19), and does not call.
#define NONE(name) \
  int name(void) { return kNoDevice; }
NONE(cuInit)
NONE(cuDeviceGet)
NONE(cuDeviceGetCount)
NONE(cuDeviceGetAttribute)
NONE(cuDevicePrimaryCtxRetain)
NONE(cuDevicePrimaryCtxRelease)
NONE(cuDevicePrimaryCtxReset)
NONE(cuCtxGetCurrent)
NONE(cuCtxGetDevice)
NONE(cuCtxGetLimit)
NONE(cuCtxPushCurrent)
NONE(cuCtxPopCurrent)
NONE(cuStreamGetCtx)
NONE(cuStreamSynchronize)
NONE(cuLinkCreate)
NONE(cuLinkCreate_v2)
NONE(cuLinkAddData)
NONE(cuLinkAddData_v2)
NONE(cuLinkAddFile_v2)
NONE(cuLinkComplete)
NONE(cuLinkDestroy)
NONE(cuLibraryLoadFromFile)
NONE(cuKernelGetAttribute)
NONE(cuModuleLoadData)
NONE(cuModuleLoadDataEx)
NONE(cuModuleLoadFatBinary)
NONE(cuModuleGetFunction)
NONE(cuModuleGetGlobal_v2)
NONE(cuModuleUnload)
NONE(cuFuncGetAttribute)
NONE(cuFuncSetAttribute)
NONE(cuLaunchKernel)
NONE(cuLaunchKernelEx)
NONE(cuLaunchCooperativeKernel)
NONE(cuOccupancyMaxActiveBlocksPerMultiprocessor)
NONE(cuOccupancyMaxPotentialClusterSize)
NONE(cuTensorMapEncodeTiled)
NONE(cuMemcpyDtoH_v2)
