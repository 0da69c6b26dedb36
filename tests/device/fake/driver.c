// A driver without a GPU: what is enqueued runs at once on the host, the n-th call fails with the code asked for, what
// was not given back is counted. Kernels are the few below, by name, or those of a library that the fake NVRTC
// compiled; one whose name holds FAKE_CUDA_HANGS never ends, FAKE_CUDA_TRAPS ends the device, as does any once there is
// a file FAKE_CUDA_TRAPS_ONCE, which goes; FAKE_CUDA_COLD takes longer behind others. There are FAKE_CUDA_DEVICES GPUs
// of FAKE_CUDA_MAJOR.0; with FAKE_CUDA_ONLY, a number, no other may be used.
#include "driver_state.h"

static int named_by(const char* variable, const char* name) {
  const char* const word = getenv(variable);
  return word && *word && strstr(name, word) != NULL;
}
static void run(const Op* op) {
  static const Host* last;
  done += 1 + (op->kind == 4 ? op->blocks : 0);
  if (op->cluster > 1) clusters += op->blocks / op->cluster;
  if (op->kind == 4 && last != op->host && named_by("FAKE_CUDA_COLD", op->host->name)) done += 10;
  last = op->host;
  if (op->kind == 4) {
    while (named_by("FAKE_CUDA_HANGS", op->host->name)) pause();
    const char* const once = getenv("FAKE_CUDA_TRAPS_ONCE");
    if (named_by("FAKE_CUDA_TRAPS", op->host->name) || (once && unlink(once) == 0)) sticky = 700;
    op->host->run(op->blocks, op->threads, op->values);
  }
  if (op->kind == 0) memcpy(op->to, op->from, op->bytes);
  for (int k = 0; (op->kind == 1 || op->kind == 2) && k < op->n; ++k)
    op->y[k] = op->a * op->x[k] + (op->kind == 2 ? op->y[k] : 0);
  if (op->kind == 3) sticky = 700;
  if (op->kind == 5) op->function(op->data);
}
static void enqueue(Stream* s, Op op) {
  if (!s->graph) {
    run(&op);
    return;
  }
  Graph* g = s->graph;
  g->ops = realloc(g->ops, (g->count + 1) * sizeof(Op));
  g->ops[g->count++] = op;
}

// For a fake library: work that runs as the stream's own does.
void fake_enqueue(void* stream, void (*function)(void*), void* data) {
  pthread_mutex_lock(&lock);
  enqueue(stream, (Op){.kind = 5, .function = function, .data = data});
  pthread_mutex_unlock(&lock);
}

int cuInit(unsigned flags) {
  BEGIN;
  END;
}
int cuDriverGetVersion(int* v) {
  *v = version;
  return 0;
}
int cuGetErrorName(int code, const char** text) {
  *text = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
  return 0;
}
int cuGetErrorString(int code, const char** text) {
  *text = "as was asked for";
  return 0;
}
int cuDeviceGetCount(int* n) {
  BEGIN;
  *n = getenv("FAKE_CUDA_DEVICES") ? atoi(getenv("FAKE_CUDA_DEVICES")) : devices;
  END;
}
int cuDeviceGet(int* device, int ordinal) {
  BEGIN;
  *device = ordinal;
  END;
}
int cuDeviceGetName(char* name, int bytes, int device) {
  BEGIN;
  snprintf(name, (size_t)bytes, "Fake H200");
  END;
}
int cuDeviceGetPCIBusId(char* text, int bytes, int device) {
  BEGIN;
  snprintf(text, (size_t)bytes, "0000:0%d:00.0", device);
  END;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  BEGIN;
  *bytes = (size_t)1 << 30;
  END;
}
int cuDeviceGetAttribute(int* v, int attribute, int device) {
  BEGIN;
  *v = attribute == 75    ? (getenv("FAKE_CUDA_MAJOR") ? atoi(getenv("FAKE_CUDA_MAJOR")) : 9)
       : attribute == 76  ? 0
       : attribute == 16  ? 132
       : attribute == 38  ? 50 << 20
       : attribute == 97  ? kSharedPerBlock
       : attribute == 115 ? pools
       : attribute == 37  ? 6144
                          : 1980000;
  END;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  BEGIN;
  if (getenv("FAKE_CUDA_ONLY") && atoi(getenv("FAKE_CUDA_ONLY")) != device) return leave(46);
  *context = &live;
  ++live;
  END;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  pthread_mutex_lock(&lock);
  --live;
  END;
}
int cuCtxGetCurrent(void** context) {
  *context = current;
  return 0;
}
int cuCtxPushCurrent_v2(void* context) {
  BEGIN;
  current = context;
  END;
}
int cuCtxPopCurrent_v2(void** context) {
  *context = current;
  current = NULL;
  return 0;
}
int cuMemGetInfo_v2(size_t* available, size_t* total) {
  BEGIN;
  *available = (size_t)1 << 29;
  *total = (size_t)1 << 30;
  END;
}
int cuMemPoolCreate(void** pool, const void* props) {
  BEGIN;
  *pool = malloc(1);
  ++live;
  END;
}
int cuMemPoolDestroy(void* pool) {
  pthread_mutex_lock(&lock);
  free(pool);
  --live;
  END;
}
int cuMemPoolSetAttribute(void* pool, int attribute, void* value) {
  BEGIN;
  END;
}
int cuMemPoolGetAttribute(void* pool, int attribute, void* value) {
  BEGIN;
  *(uint64_t*)value = attribute == 5 ? 4096 : 0;
  END;
}
int cuMemAllocFromPoolAsync(uint64_t* at, size_t bytes, void* pool, void* stream) {
  BEGIN;
  void* p = NULL;
  if (bytes > (size_t)1 << 29 || posix_memalign(&p, 256, bytes)) return leave(2);
  *at = (uint64_t)(uintptr_t)p;
  ++live;
  END;
}
int cuMemFreeAsync(uint64_t at, void* stream) {
  pthread_mutex_lock(&lock);
  free((void*)(uintptr_t)at);
  --live;
  END;
}
// Every address but 0 is memory of the first device; its range is not told.
int cuPointerGetAttribute(void* value, int attribute, uint64_t at) {
  BEGIN;
  if (!at || (attribute != 2 && attribute != 9)) return leave(1);
  if (attribute == 2)
    *(unsigned*)value = 2;
  else
    *(int*)value = 0;
  END;
}
int cuMemHostAlloc(void** at, size_t bytes, unsigned flags) {
  BEGIN;
  *at = malloc(bytes);
  ++live;
  END;
}
int cuMemFreeHost(void* at) {
  pthread_mutex_lock(&lock);
  free(at);
  --live;
  END;
}

static int copy(void* to, const void* from, size_t bytes, void* stream) {
  BEGIN;
  if (spoilt(stream)) return leave(901);
  enqueue(stream, (Op){.kind = 0, .to = to, .from = from, .bytes = bytes});
  END;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  return copy((void*)(uintptr_t)to, from, bytes, stream);
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  return copy(to, (void*)(uintptr_t)from, bytes, stream);
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  return copy((void*)(uintptr_t)to, (void*)(uintptr_t)from, bytes, stream);
}

int cuStreamCreate(void** stream, unsigned flags) {
  BEGIN;
  Stream* s = calloc(1, sizeof *s);
  s->next = streams;
  streams = s;
  *stream = s;
  ++live;
  END;
}
int cuStreamDestroy_v2(void* stream) {
  pthread_mutex_lock(&lock);
  for (Stream** at = &streams; *at; at = &(*at)->next)
    if (*at == stream) {
      *at = (*at)->next;
      break;
    }
  free(stream);
  --live;
  END;
}
// A wait takes a while to begin; of a stream in a capture it is refused, and spoils the capture.
int cuStreamSynchronize(void* stream) {
  sched_yield();
  BEGIN;
  if (((Stream*)stream)->graph) {
    ((Stream*)stream)->graph->spoilt = 1;
    return leave(900);
  }
  END;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  BEGIN;
  Graph* g = ((Event*)event)->graph;
  if (g && !g->ended) ((Stream*)stream)->graph = g;
  END;
}
int cuEventCreate(void** event, unsigned flags) {
  BEGIN;
  *event = calloc(1, sizeof(Event));
  ++live;
  END;
}
int cuEventDestroy_v2(void* event) {
  pthread_mutex_lock(&lock);
  free(event);
  --live;
  END;
}
int cuEventRecord(void* event, void* stream) {
  BEGIN;
  ((Event*)event)->graph = ((Stream*)stream)->graph;
  ((Event*)event)->at = done;
  END;
}
int cuEventSynchronize(void* event) {
  BEGIN;
  END;
}
int cuEventElapsedTime(float* ms, void* from, void* to) {
  BEGIN;
  *ms = (float)(1 + ((Event*)to)->at - ((Event*)from)->at) * 1e-3f;
  END;
}
int cuStreamBeginCapture_v2(void* stream, int mode) {
  BEGIN;
  ((Stream*)stream)->graph = begun();
  ++live;
  END;
}
int cuStreamEndCapture(void* stream, void** graph) {
  const int failed = enter();
  Graph* g = ((Stream*)stream)->graph;
  for (Stream* s = streams; s; s = s->next)
    if (s->graph == g) s->graph = NULL;
  g->ended = 1;
  *graph = g;
  return leave(failed ? failed : g->spoilt ? 901 : 0);
}
int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long flags) {
  BEGIN;
  const Graph* from = graph;
  Graph* g = calloc(1, sizeof *g);
  g->ops = malloc(from->count * sizeof(Op) + 1);
  if (from->count) memcpy(g->ops, from->ops, from->count * sizeof(Op));
  g->count = from->count;
  *exec = g;
  ++live;
  END;
}
int cuGraphExecUpdate_v2(void* exec, void* graph, void* result) {
  BEGIN;
  Graph* to = exec;
  const Graph* from = graph;
  int same = to->count == from->count;
  for (size_t k = 0; same && k < to->count; ++k) same = to->ops[k].kind == from->ops[k].kind;
  if (!same) return leave(910);
  if (from->count) memcpy(to->ops, from->ops, from->count * sizeof(Op));
  END;
}
int cuGraphUpload(void* exec, void* stream) {
  BEGIN;
  ((Graph*)exec)->there = 1;
  END;
}
int cuGraphLaunch(void* exec, void* stream) {
  BEGIN;
  Graph* g = exec;
  late += !g->there;
  g->there = 1;
  for (size_t k = 0; k < g->count; ++k) run(&g->ops[k]);
  END;
}
int cuGraphExecDestroy(void* exec) { return drop(exec); }
int cuGraphDestroy(void* graph) { return drop(graph); }
int cuLibraryLoadData(void** library, const void* code, int* o, void** v, unsigned n, int* lo, void** lv, unsigned ln) {
  BEGIN;
  // A text that does not compile is told about where CU_JIT_ERROR_LOG_BUFFER says.
  if (strstr(code, "broken ptx") && (n == 0 || o[0] != 5 || strcpy(v[0], "ptxas error: broken ptx"))) return leave(218);
  Module* m = calloc(1, sizeof *m);
  m->code = strdup(code);
  if (!strncmp(code, "library ", 8)) {
    m->code[strcspn(m->code, "\n")] = 0;
    m->library = dlopen(m->code + 8, RTLD_NOW | RTLD_LOCAL);
    if (!m->library) fprintf(stderr, "%s\n", dlerror());
  }
  *library = m;
  ++live;
  END;
}
int cuLibraryUnload(void* library) {
  pthread_mutex_lock(&lock);
  free(((Module*)library)->code);
  free(library);
  --live;
  END;
}
int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  static const char* const names[] = {"", "peri_scale", "peri_add", "peri_trap"};
  BEGIN;
  if (((Module*)library)->library) {
    char symbol[256];
    snprintf(symbol, sizeof symbol, "peri_host_%s", name);
    *kernel = dlsym(((Module*)library)->library, symbol);
    return leave(*kernel ? 0 : 500);
  }
  for (intptr_t k = 1; k < 4; ++k)
    if (!strcmp(names[k], name) && strstr(((Module*)library)->code, name)) {
      *kernel = (void*)k;
      END;
    }
  return leave(500);
}
static unsigned* limit_of(const void* kernel) {
  for (int k = 0; k < limit_count; ++k)
    if (limits[k].kernel == kernel) return &limits[k].bytes;
  return NULL;
}
int cuKernelSetAttribute(int attribute, int value, void* kernel, int device) {
  BEGIN;
  if (attribute != 8 || value < 0 || value > kSharedPerBlock) return leave(1);
  unsigned* limit = limit_of(kernel);
  if (!limit && limit_count == kMaxKernels) return leave(2);
  if (!limit) {
    limits[limit_count].kernel = kernel;
    limit = &limits[limit_count++].bytes;
  }
  *limit = (unsigned)value;
  END;
}
int cuKernelGetAttribute(int* value, int attribute, void* kernel, int device) {
  BEGIN;
  *value = attribute == 0 ? 1024 : attribute == 4 ? 16 : 0;
  END;
}
int cuLaunchKernelEx(const void* config, void* kernel, void** parameters, void** extra) {
  BEGIN;
  const Config* const c = config;
  if (spoilt(c->stream)) return leave(901);
  const unsigned* const limit = limit_of(kernel);
  const int cluster = cluster_of(c);
  if (c->shared > (limit ? *limit : kPlainShared) || cluster == 0) return leave(1);
  if ((intptr_t)kernel > 3) {
    Op op = {.kind = 4, .host = kernel, .blocks = c->blocks[0], .threads = (int)c->threads[0], .cluster = cluster};
    for (int k = 0; k < op.host->count && k < kMaxValues; ++k) memcpy(&op.values[k], parameters[k], 8);
    enqueue(c->stream, op);
    return leave(sticky);
  }
  Op op = {.kind = (int)(intptr_t)kernel, .blocks = c->blocks[0], .cluster = cluster};
  op.x = *(float**)parameters[0];
  op.y = *(float**)parameters[1];
  op.a = *(float*)parameters[2];
  op.n = *(int*)parameters[3];
  enqueue(c->stream, op);
  END;
}
