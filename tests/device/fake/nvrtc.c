// NVRTC and the other libraries as far as versions and failures are concerned: "compiling" copies the source, and a
// source with the word `broken` does not compile, one with `throws` gives more code than there is memory. With
// FAKE_CUDA_COMPILES, a folder, kernels without __syncthreads() are compiled by the host's compiler into a library
// there, which the fake driver runs. With FAKE_NVRTC_SECONDS each takes so long.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Atomic long calls, failing_call, live, minimal;
static int failing_code, major_version = 13, minor_version = 0;
static char first_text[64];
static size_t cudnn_version = 91900;

void fake_nvrtc_fail(long call, int code) {
  calls = 0;
  failing_call = call;
  failing_code = code;
  first_text[0] = 0;
  minimal = 0;
}
// How many were compiled since then without the declarations of CUDA's runtime.
long fake_nvrtc_minimal(void) { return minimal; }
// The begin of the first text since then.
const char* fake_nvrtc_first(void) { return first_text; }
long fake_nvrtc_live(void) { return live; }
void fake_nvrtc_version(int major, int minor) {
  major_version = major;
  minor_version = minor;
}
void fake_cudnn_version(size_t v) { cudnn_version = v; }

typedef struct {
  char* text;
  int broken;
} Program;
static int fails(void) { return ++calls == failing_call ? failing_code : 0; }

int nvrtcVersion(int* major, int* minor) {
  *major = major_version;
  *minor = minor_version;
  return 0;
}
const char* nvrtcGetErrorString(int code) { return code == 1 ? "NVRTC_ERROR_OUT_OF_MEMORY" : "NVRTC_ERROR_FAKE"; }
int nvrtcGetNumSupportedArchs(int* n) {
  *n = 2;
  return fails();
}
int nvrtcGetSupportedArchs(int* chips) {
  chips[0] = 80;
  chips[1] = 90;
  return fails();
}
int nvrtcCreateProgram(void** program, const char* text, const char* name, int n, const char* const* t,
                       const char* const* h) {
  const int failed = fails();
  if (failed) return failed;
  if (!first_text[0]) strncpy(first_text, text, sizeof first_text - 1);
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

// Before a text: CUDA's names for the host, and kernels called with their parameters as 64-bit words.
static const char* const head =
    "#include <math.h>\n#include <string.h>\n"
    "struct Three { int x; };\nstatic thread_local Three threadIdx, blockIdx, gridDim, blockDim;\n"
    "#define __launch_bounds__(N)\n#define __global__\n#define PERI_DEVICE static inline\n"
    "#define PERI_KERNEL extern \"C\" void\n#define PERI_TABLE static const\n"
    "PERI_DEVICE double __hiloint2double(int high, int low) { int w[2] = {low, high}; double v; memcpy(&v, w, 8); "
    "return v; }\n"
    "PERI_DEVICE int __double2loint(double v) { int w[2]; memcpy(w, &v, 8); return w[0]; }\n"
    "PERI_DEVICE int __double2hiint(double v) { int w[2]; memcpy(w, &v, 8); return w[1]; }\n"
    "PERI_DEVICE float peri_bits(unsigned v) { float f; memcpy(&f, &v, 4); return f; }\n"
    "PERI_DEVICE unsigned peri_word(float v) { unsigned w; memcpy(&w, &v, 4); return w; }\n"
    "PERI_DEVICE float peri_from_f16(unsigned short v) { _Float16 h; memcpy(&h, &v, 2); return (float)h; }\n"
    "PERI_DEVICE unsigned short peri_to_f16(float v) { const _Float16 h = (_Float16)v; unsigned short w; "
    "memcpy(&w, &h, 2); return w; }\n"
    "PERI_DEVICE unsigned peri_pair_f16(float a, float b) { return peri_to_f16(a) | (unsigned)peri_to_f16(b) << 16; }\n"
    "static unsigned short peri_to_bf16(float v);\n"
    "PERI_DEVICE unsigned peri_pair_bf16(float a, float b) { return peri_to_bf16(a) | (unsigned)peri_to_bf16(b) << 16; "
    "}"
    "\nPERI_DEVICE float peri_exp2(float v) { return exp2f(v); }\n"
    "PERI_DEVICE float peri_reciprocal(float v) { return 1.0f / v; }\n"
    "PERI_DEVICE float peri_max(float a, float b) { return a > b || a != a ? a : b; }\n"
    "PERI_DEVICE float peri_min(float a, float b) { return a < b || a != a ? a : b; }\n"
    "#define PERI_SHARED static\n"
    "template <class T> static void atomicAdd(T* to, T value) { *to += value; }\n"
    "template <unsigned... I> struct Words {};\n"
    "template <unsigned N, unsigned... I> struct Count : Count<N - 1, N - 1, I...> {};\n"
    "template <unsigned... I> struct Count<0, I...> { typedef Words<I...> type; };\n"
    "template <class... A, unsigned... I>\n"
    "void one(void (*f)(A...), const unsigned long* v, Words<I...>) { f((A)v[I]...); }\n"
    "template <class... A> void all(void (*f)(A...), long blocks, int threads, const unsigned long* v) {\n"
    "  gridDim.x = (int)blocks, blockDim.x = threads;\n"
    "  for (long b = 0; b < blocks; ++b)\n"
    "    for (int t = 0; t < threads; ++t) {\n"
    "      blockIdx.x = (int)b, threadIdx.x = t;\n"
    "      one(f, v, typename Count<sizeof...(A)>::type());\n"
    "    }\n}\n"
    "template <class... A> constexpr int count(void (*)(A...)) { return sizeof...(A); }\n"
    "struct Host { const char* name; int count; void (*run)(long, int, const unsigned long*); };\n";

// The library's path as code that the fake driver knows.
static int compile(Program* p, const char* folder) {
  static int number = 0;
  char stem[512], command[2048];
  snprintf(stem, sizeof stem, "%s/text_%d_%d", folder, (int)getpid(), __atomic_fetch_add(&number, 1, __ATOMIC_SEQ_CST));
  snprintf(command, sizeof command, "%s.cpp", stem);
  FILE* file = fopen(command, "w");
  if (!file) return 6;
  fprintf(file, "%s%s", head, p->text);
  for (const char* at = p->text; (at = strstr(at, "peri_")); ++at) {
    const char* line = at;
    while (line > p->text && line[-1] != '\n') --line;
    if (strncmp(line, "PERI_KERNEL", 11) && strncmp(line, "extern \"C\" __global__", 21)) continue;
    const int length = (int)strcspn(at, "(");
    fprintf(
        file,
        "extern \"C\" const Host peri_host_%.*s = {\"%.*s\", count(%.*s), [](long b, int t, const unsigned long* v) "
        "{ all(%.*s, b, t, v); }};\n",
        length, at, length, at, length, at, length, at);
    at += strcspn(at, "\n") - 1;
  }
  fclose(file);
  snprintf(command, sizeof command,
           "c++ -std=c++17 -O1 -ffp-contract=off -fno-strict-aliasing -w -shared -fPIC -o %s.so %s.cpp 2> %s.log", stem,
           stem, stem);
  if (system(command) != 0) return 6;
  free(p->text);
  p->text = malloc(strlen(stem) + 16);
  sprintf(p->text, "library %s.so", stem);
  return 0;
}

int nvrtcCompileProgram(void* program, int n, const char* const* options) {
  const int failed = fails();
  for (int k = 0; k < n; ++k) minimal += !strcmp(options[k], "--minimal");
  const char* const folder = getenv("FAKE_CUDA_COMPILES");
  if (getenv("FAKE_NVRTC_SECONDS")) sleep((unsigned)atoi(getenv("FAKE_NVRTC_SECONDS")));
  if (!failed && folder && *folder) return compile(program, folder);
  return failed ? failed : ((Program*)program)->broken ? 6 : 0;
}
int nvrtcGetCUBINSize(void* program, size_t* bytes) {
  *bytes = strstr(((Program*)program)->text, "throws") ? (size_t)-1 : strlen(((Program*)program)->text);
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
  *major = 13;
  *minor = 0;
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
