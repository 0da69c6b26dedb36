// NVRTC and the other libraries as far as versions and failures are concerned: "compiling" copies the source, and a
// source with the word `broken` does not compile.
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

static long calls, failing_call, live;
static int failing_code, major_version = 13, minor_version = 0;
static size_t cudnn_version = 91900;

void fake_nvrtc_fail(long call, int code) { calls = 0, failing_call = call, failing_code = code; }
long fake_nvrtc_live(void) { return live; }
void fake_nvrtc_version(int major, int minor) { major_version = major, minor_version = minor; }
void fake_cudnn_version(size_t v) { cudnn_version = v; }

typedef struct {
  char* text;
  int broken;
} Program;
static int fails(void) { return ++calls == failing_call ? failing_code : 0; }

int nvrtcVersion(int* major, int* minor) {
  *major = major_version, *minor = minor_version;
  return 0;
}
const char* nvrtcGetErrorString(int code) { return code == 1 ? "NVRTC_ERROR_OUT_OF_MEMORY" : "NVRTC_ERROR_FAKE"; }
int nvrtcGetNumSupportedArchs(int* n) {
  *n = 2;
  return fails();
}
int nvrtcGetSupportedArchs(int* chips) {
  chips[0] = 80, chips[1] = 90;
  return fails();
}
int nvrtcCreateProgram(void** program, const char* text, const char* name, int n, const char* const* t,
                       const char* const* h) {
  const int failed = fails();
  if (failed) return failed;
  Program* p = malloc(sizeof *p);
  p->text = strdup(text);
  p->broken = strstr(text, "broken") != NULL;
  *program = p;
  ++live;
  return 0;
}
int nvrtcDestroyProgram(void** program) {
  Program* p = *program;
  free(p->text);
  free(p);
  *program = NULL;
  --live;
  return 0;
}
int nvrtcCompileProgram(void* program, int n, const char* const* options) {
  const int failed = fails();
  return failed ? failed : ((Program*)program)->broken ? 6 : 0;
}
int nvrtcGetCUBINSize(void* program, size_t* bytes) {
  *bytes = strlen(((Program*)program)->text);
  return fails();
}
int nvrtcGetCUBIN(void* program, char* to) {
  memcpy(to, ((Program*)program)->text, strlen(((Program*)program)->text));
  return fails();
}
static const char* log_of(const void* program) {
  return ((const Program*)program)->broken ? "line 1: error: broken" : "fine";
}
int nvrtcGetProgramLogSize(void* program, size_t* bytes) {
  *bytes = strlen(log_of(program)) + 1;
  return fails();
}
int nvrtcGetProgramLog(void* program, char* to) {
  strcpy(to, log_of(program));
  return fails();
}

size_t cudnnGetVersion(void) { return cudnn_version; }
size_t cublasLtGetVersion(void) { return 130100; }
int nvJitLinkVersion(unsigned* major, unsigned* minor) {
  *major = 13, *minor = 0;
  return 0;
}

int nvmlInit_v2(void) {
  ++live;
  return 0;
}
int nvmlShutdown(void) {
  --live;
  return 0;
}
int nvmlSystemGetDriverVersion(char* text, unsigned bytes) {
  strncpy(text, "580.159.04", bytes);
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, void** device) {
  *device = device;
  return strcmp(pci, "0000:00:00.0") ? 6 : 0;
}
int nvmlDeviceGetClockInfo(void* device, int which, unsigned* mhz) {
  *mhz = which == 1 ? 1980 : 3201;
  return 0;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* mw) {
  *mw = 75000;
  return 0;
}
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* mw) { return 3; }
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  *celsius = 31;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* bits) {
  *bits = 1;
  return 0;
}
