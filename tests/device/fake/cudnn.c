// A cuDNN that computes on the host, under the names of NVIDIA's, with the fake driver's memory: descriptors keep what
// they are told, a few engines answer for convolutions with what follows them and for attentions, the n-th call fails
// with the status that is asked for, and what was not given back is counted.
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kBadParam = 2000, kNotSupported = 3000, kCompilationFailed = 4001 };
enum { kTensor = 17, kPack = 16, kGraph = 15, kApply = 13, kConvolve = 10, kKnob = 7, kPlan = 5, kHeuristic = 4 };
enum { kEngineConfig = 3, kEngine = 2, kMultiply = 19, kReduce = 22 };
// In the order of the heuristic: one that does not compile, one whose bits differ, one that is compiled for
// each size, one with knobs, the fallback.
enum { kBroken = 42, kRandom = 7, kKnobbed = 41, kFallback = 50, kCompiled = 60 };

typedef struct {
  int name;
  int64_t count;
  void* values;
} Attribute;
typedef struct Descriptor {
  int type, finalized, attributes;
  Attribute all[16];
  int64_t number, value;  // engine, or type and value of a knob, where the library gave it
} Descriptor;
typedef void Enqueue(void* stream, void (*function)(void*), void* data);

static _Atomic long calls, failing_call, live, runs;
static int needs_bias;             // where a residual or relu follows the convolution
static _Atomic int users, shared;  // threads that use the handle now, and whether any two ever did at once
static int failing_status;
static size_t version = 91900;
static Enqueue* enqueue;
static void* stream;

// The real one leaves it to its callers that a handle is used by one thread at a time.
static void use_handle(void) {
  if (users++ > 0) shared = 1;
  usleep(200);
  --users;
}

// What a test asks of the fake.
void fake_dnn_reset(void) {
  calls = failing_call = live = runs = 0;
  shared = 0;
  failing_status = 0;
  version = 91900;
  enqueue = NULL;
  needs_bias = 0;
}
void fake_dnn_fail(long call, int status) {
  calls = 0;
  failing_call = call;
  failing_status = status;
}
long fake_dnn_calls(void) { return calls; }
long fake_dnn_live(void) { return live; }
long fake_dnn_runs(void) { return runs; }
long fake_dnn_shared(void) { return shared; }
void fake_dnn_version(size_t v) { version = v; }
// From now on as the real one: it has no engine for a residual or relu without a bias.
void fake_dnn_needs_bias(void) { needs_bias = 1; }
void fake_dnn_queue(Enqueue* e) { enqueue = e; }

#define BEGIN \
  if (++calls == failing_call) return failing_status

size_t cudnnGetVersion(void) { return version; }
const char* cudnnGetErrorString(int status) { return status == kNotSupported ? "NOT_SUPPORTED" : "FAKE"; }
int cudnnCreate(void** handle) {
  BEGIN;
  *handle = malloc(1);
  ++live;
  return 0;
}
int cudnnDestroy(void* handle) {
  free(handle);
  --live;
  return 0;
}
int cudnnSetStream(void* handle, void* s) {
  BEGIN;
  use_handle();
  stream = s;
  return 0;
}
int cudnnBackendCreateDescriptor(int type, void** out) {
  BEGIN;
  Descriptor* d = calloc(1, sizeof *d);
  d->type = type;
  *out = d;
  ++live;
  return 0;
}
int cudnnBackendDestroyDescriptor(Descriptor* d) {
  for (int k = 0; k < d->attributes; ++k) free(d->all[k].values);
  free(d);
  --live;
  return 0;
}

static size_t width(int type) {
  switch (type) {
    case 2: return 1;
    case 1:
    case 4:
    case 7:
    case 8:
    case 9:
    case 11:
    case 14:
    case 18: return 4;
    default: return 8;
  }
}
int cudnnBackendSetAttribute(Descriptor* d, int name, int type, int64_t count, const void* values) {
  BEGIN;
  if (d->finalized || d->attributes == 16) return kBadParam;
  const size_t bytes = width(type) * (size_t)count;
  Attribute* a = &d->all[d->attributes++];
  *a = (Attribute){name, count, memcpy(malloc(bytes + 1), values, bytes)};
  return 0;
}
static const Attribute* attribute(const Descriptor* d, int name) {
  for (int k = 0; k < d->attributes; ++k)
    if (d->all[k].name == name) return &d->all[k];
  return NULL;
}
static int64_t whole(const Descriptor* d, int name, int k) {
  const Attribute* a = attribute(d, name);
  return a && k < a->count ? ((const int64_t*)a->values)[k] : -1;
}
static int number(const Descriptor* d, int name) {
  const Attribute* a = attribute(d, name);
  return a ? *(const int*)a->values : -1;
}
static Descriptor* part(const Descriptor* d, int name, int k) {
  const Attribute* a = attribute(d, name);
  return a && k < a->count ? ((Descriptor* const*)a->values)[k] : NULL;
}

static int is_attention(const Descriptor* graph);
static int known(int64_t engine) {
  return engine == kBroken || engine == kRandom || engine == kKnobbed || engine == kFallback || engine == kCompiled;
}
static int has_bias(const Descriptor* graph) {
  for (int64_t k = 1; k < attribute(graph, 801)->count; ++k)
    if (whole(part(part(graph, 801, (int)k), 752, 0), 906, 0) == 5) return 1;
  return 0;
}
// What the real one would ask of each, as far as it matters here.
int cudnnBackendFinalize(Descriptor* d) {
  BEGIN;
  if (d->finalized) return kBadParam;
  d->finalized = 1;
  if (d->type == kGraph || d->type == kPlan || d->type == kHeuristic) use_handle();
  if (d->type == kTensor && (whole(d, 902, 3) < 1 || whole(d, 903, 3) < 1 || number(d, 901) < 0)) return kBadParam;
  if (d->type == kGraph) {
    const Descriptor* const first = part(d, 801, 0);
    if (!first || (first->type != kConvolve && (first->type != kMultiply || !is_attention(d)))) return kNotSupported;
    if (first->type == kConvolve && whole(part(first, 704, 0), 903, 1) != 1) return kNotSupported;
    if (needs_bias && first->type == kConvolve && attribute(d, 801)->count > 1 && !has_bias(d)) return kNotSupported;
  }
  if (d->type == kEngine && (!part(d, 1300, 0) || !known(whole(d, 1301, 0)))) return kNotSupported;
  if (d->type == kEngineConfig && attribute(d, 302)) {
    const Descriptor* knob = part(d, 302, 0);
    if (whole(part(d, 300, 0), 1301, 0) != kKnobbed || attribute(d, 302)->count != 2) return kNotSupported;
    if (number(knob, 600) != 2 || whole(knob, 601, 0) != 1) return kNotSupported;
  }
  if (d->type == kPlan && whole(part(part(d, 401, 0), 300, 0), 1301, 0) == kBroken) return kCompilationFailed;
  return 0;
}

int cudnnBackendGetAttribute(Descriptor* d, int name, int type, int64_t most, int64_t* count, void* values) {
  BEGIN;
  static const int64_t best[] = {kBroken, kRandom, kCompiled, kKnobbed};
  Descriptor** out = values;
  if (name == 202) {
    const int fallback = number(d, 200) == 2;
    *count = fallback ? 1 : 4;
    for (int64_t k = 0; k < most && k < *count; ++k) out[k]->number = fallback ? kFallback : best[k];
  } else if (name == 300 && most == 1) {
    *count = 1;
    out[0]->number = d->number;
  } else if (name == 1301) {
    *count = 1;
    *(int64_t*)values = d->number;
  } else if (name == 1303) {
    *count = d->number == kRandom ? 1 : 0;
    if (*count && most) *(int*)values = 4;
  } else if (name == 1305) {
    *count = d->number == kCompiled ? 1 : 0;
    if (*count && most) *(int*)values = 0;
  } else if (name == 302) {
    // As the real one: how many were filled, none where there is room for none.
    *count = d->number == kKnobbed ? (most < 2 ? most : 2) : 0;
    for (int64_t k = 0; k < *count; ++k) {
      out[k]->number = 2 + k;
      out[k]->value = 1 - k;
    }
  } else if (name == 2702) {
    static const char text[] = "{\"deviceName\":\"FAKE\"}";
    *count = most < (int64_t)sizeof text ? (int64_t)sizeof text : most;
    if (most >= (int64_t)sizeof text) memcpy(values, text, sizeof text);
  } else if (name == 600) {
    *count = 1;
    *(int*)values = (int)d->number;
  } else if (name == 601) {
    *count = 1;
    *(int64_t*)values = d->value;
  } else if (name == 402) {
    *count = 1;
    *(int64_t*)values = whole(part(part(d, 401, 0), 300, 0), 1301, 0) == kKnobbed ? 1024 : 0;
  } else {
    return kBadParam;
  }
  return 0;
}

// A convolution as it was executed, kept to the end: a graph may run it any number of times.
typedef struct {
  int type, relu;
  int64_t x[4], w[4], y[4], before[2], stride[2], dilation[2];
  const void *px, *pw, *pr, *pb;
  void *py, *workspace;
} Call;

static float get(const void* at, int type, int64_t k) {
  if (type == 0) return ((const float*)at)[k];
  if (type == 2) return (float)((const _Float16*)at)[k];
  const uint32_t bits = (uint32_t)((const uint16_t*)at)[k] << 16;
  float out;
  memcpy(&out, &bits, 4);
  return out;
}
static void put(void* at, int type, int64_t k, float value) {
  if (type == 0) ((float*)at)[k] = value;
  if (type == 2) ((_Float16*)at)[k] = (_Float16)value;
  uint32_t bits;
  memcpy(&bits, &value, 4);
  if (type == 9) ((uint16_t*)at)[k] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
// The sum at one place: y[n, k, i, j], channels last.
static float sum_at(const Call* c, int64_t n, int64_t k, int64_t i, int64_t j) {
  const int64_t depth = c->w[1], first = k / (c->y[1] / (c->x[1] / depth)) * depth;
  float sum = 0;
  for (int64_t r = 0; r < c->w[2]; ++r)
    for (int64_t s = 0; s < c->w[3]; ++s) {
      const int64_t h = i * c->stride[0] - c->before[0] + r * c->dilation[0],
                    w = j * c->stride[1] - c->before[1] + s * c->dilation[1];
      if (h < 0 || w < 0 || h >= c->x[2] || w >= c->x[3]) continue;
      for (int64_t d = 0; d < depth; ++d)
        sum += get(c->px, c->type, ((n * c->x[2] + h) * c->x[3] + w) * c->x[1] + first + d) *
               get(c->pw, c->type, ((k * c->w[2] + r) * c->w[3] + s) * depth + d);
    }
  return sum;
}
static void run(void* data) {
  const Call* c = data;
  ++runs;
  if (c->workspace) memset(c->workspace, 0xff, 1024);
  for (int64_t n = 0; n < c->y[0]; ++n)
    for (int64_t i = 0; i < c->y[2]; ++i)
      for (int64_t j = 0; j < c->y[3]; ++j)
        for (int64_t k = 0; k < c->y[1]; ++k) {
          const int64_t at = ((n * c->y[2] + i) * c->y[3] + j) * c->y[1] + k;
          float v = sum_at(c, n, k, i, j);
          if (c->pr) v += get(c->pr, c->type, at);
          if (c->pb) v += get(c->pb, c->type, k);
          put(c->py, c->type, at, c->relu && v < 0 ? 0 : v);
        }
}

#include "cudnn_attention.h"

int cudnnBackendExecute(void* handle, const Descriptor* plan, const Descriptor* pack) {
  BEGIN;
  if (!plan->finalized || plan->type != kPlan || !pack->finalized || pack->type != kPack) return kBadParam;
  const Descriptor* engine = part(part(plan, 401, 0), 300, 0);
  const Descriptor *graph = part(engine, 1300, 0), *first = part(graph, 801, 0), *how = part(first, 702, 0);
  const int knobbed = whole(engine, 1301, 0) == kKnobbed;
  if (first->type == kMultiply) {
    use_handle();
    return attend(graph, pack, knobbed ? (void*)(intptr_t)whole(pack, 1003, 0) : NULL, knobbed);
  }
  Call call = {.type = number(part(first, 704, 0), 901)};
  use_handle();
  for (int k = 0; k < 4; ++k) {
    call.x[k] = whole(part(first, 704, 0), 902, k);
    call.w[k] = whole(part(first, 703, 0), 902, k);
    call.y[k] = whole(part(first, 705, 0), 902, k);
  }
  for (int k = 0; k < 2; ++k) {
    call.dilation[k] = whole(how, 102, k);
    call.stride[k] = whole(how, 103, k);
    call.before[k] = whole(how, 105, k);
  }
  for (int64_t k = 1; k < attribute(graph, 801)->count; ++k)
    if (number(part(part(graph, 801, (int)k), 750, 0), 0) == 100) call.relu = 1;
  for (int k = 0; k < attribute(pack, 1000)->count; ++k) {
    void* const at = (void*)(intptr_t)whole(pack, 1001, k);
    const int64_t id = whole(pack, 1000, k);
    if (id == 1) call.px = at;
    if (id == 2) call.pw = at;
    if (id == 3) call.py = at;
    if (id == 4) call.pr = at;
    if (id == 5) call.pb = at;
  }
  if (knobbed) {
    call.workspace = (void*)(intptr_t)whole(pack, 1003, 0);
    if (!call.workspace || (uintptr_t)call.workspace % 256 != 0) return kBadParam;
  }
  if (!call.px || !call.pw || !call.py) return kBadParam;
  if (enqueue)
    enqueue(stream, run, memcpy(malloc(sizeof call), &call, sizeof call));
  else
    run(&call);
  return 0;
}
