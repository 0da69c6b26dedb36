// What the fake driver holds: work, captures, streams, modules, and what a test has asked of it. Included once.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kMaxValues = 32 };
// A kernel as a host's library has it: its name, how many parameters it takes, and a run of all its threads.
typedef struct Host {
  const char* name;
  int count;
  void (*run)(long blocks, int threads, const uint64_t* values);
} Host;
typedef struct {
  int kind;  // 0: copy, 1: scale, 2: add, 3: trap, 4: of the host, 5: a library's
  void* to;
  const void* from;
  size_t bytes;
  float *x, *y, a;
  int n;
  void (*function)(void*);
  void* data;
  const Host* host;
  long blocks;
  int threads, cluster;
  uint64_t values[kMaxValues];
} Op;
typedef struct Graph {
  Op* ops;
  size_t count;
  int ended, there, spoilt;  // there: brought to the device
} Graph;
typedef struct Stream {
  Graph* graph;  // of the capture it takes part in
  struct Stream* next;
} Stream;
typedef struct {
  Graph* graph;  // of the capture it was recorded in
  long at;       // what had been done
} Event;
typedef struct {
  char* code;
  void* library;  // of the host
} Module;

// How a kernel is launched: CUlaunchConfig with the attributes of CUlaunchAttribute.
typedef struct {
  int id, pad;
  union {
    char bytes[64];
    unsigned cluster[3];
  } value;
} Attribute;
typedef struct {
  unsigned blocks[3], threads[3], shared;
  Stream* stream;
  const Attribute* attributes;
  unsigned attribute_count;
} Config;
// Blocks of a cluster; 0 where the launch may not be.
static int cluster_of(const Config* c) {
  unsigned all = 1;
  for (unsigned k = 0; k < c->attribute_count; ++k)
    for (int d = 0; c->attributes[k].id == 4 && d < 3; ++d) {
      const unsigned of = c->attributes[k].value.cluster[d];
      if (of == 0 || c->blocks[d] % of != 0) return 0;
      all *= of;
    }
  return all <= 8 ? (int)all : 0;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int version = 13000, devices = 1, pools = 1;
static long clusters;                         // of two and more blocks that ran
static long late;                             // graphs that a launch had to bring to the device
static long to_spoil;                         // captures that are spoilt from outside as soon as they begin
static long calls, failing_call, live, done;  // done: microseconds of a clock that goes by work
static int failing_code, sticky;
static Stream* streams;
// The most dynamic shared memory of kernels that were told one; others have kPlainShared.
enum { kPlainShared = 48 << 10, kSharedPerBlock = 232448, kMaxKernels = 256 };
static struct {
  const void* kernel;
  unsigned bytes;
} limits[kMaxKernels];
static int limit_count;
static __thread void* current;

// What a test asks of the fake.
void fake_reset(void) {
  version = 13000;
  devices = 1;
  pools = 1;
  calls = failing_call = live = clusters = late = to_spoil = 0;
  failing_code = sticky = limit_count = 0;
}
void fake_fail(long call, int code) {
  calls = 0;
  failing_call = call;
  failing_code = code;
}
long fake_calls(void) { return calls; }
long fake_live(void) { return live; }
long fake_clusters(void) { return clusters; }
long fake_late(void) { return late; }
static Graph* begun(void) {
  Graph* const g = calloc(1, sizeof *g);
  g->spoilt = to_spoil > 0 && to_spoil--;
  return g;
}
static int spoilt(const void* stream) {
  const Stream* const s = stream;
  return s && s->graph && s->graph->spoilt;
}
void fake_spoil(long captures) { to_spoil = captures; }
void fake_version(int driver) { version = driver; }
void fake_devices(int count, int with_pools) {
  devices = count;
  pools = with_pools;
}

static int is_sticky(int code) { return code >= 700 && code < 800 && code != 701; }
static int enter(void) {
  pthread_mutex_lock(&lock);
  if (sticky) return sticky;
  if (++calls != failing_call) return 0;
  if (is_sticky(failing_code)) sticky = failing_code;
  return failing_code;
}
static int leave(int code) {
  pthread_mutex_unlock(&lock);
  return code;
}
#define BEGIN                 \
  const int failed = enter(); \
  if (failed) return leave(failed)
#define END return leave(0)
static int drop(Graph* g) {
  pthread_mutex_lock(&lock);
  free(g->ops);
  free(g);
  --live;
  END;
}
