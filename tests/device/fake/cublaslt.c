// A cuBLASLt that computes on the host, under the names of NVIDIA's, with the fake driver's memory: a few algorithms of
// which each states a workspace, the n-th call fails with the status that is asked for, and what was not given back is
// counted. What the real library would refuse or be spoilt by is an error here.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { kInvalid = 7, kExecutionFailed = 13, kNotSupported = 15 };
enum { kFirstAlgo = 60 };

typedef struct {
  int compute, transpose[2], epilogue, bias_type;
  void* bias;
} Product;
typedef struct {
  int type, count;
  uint64_t rows, columns;
  int64_t step, stride;
} Layout;
typedef struct {
  uint64_t workspace;
  uint32_t reductions, alignment[4];
} Wishes;
typedef struct {
  uint32_t numbers[9];
  uint32_t unused[7];
} Algo;
typedef struct {
  Algo algo;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} Found;

typedef void Enqueue(void* stream, void (*function)(void*), void* data);

static size_t version = 130100;
static long calls, failing_call, live, products;
static int failing_status, algos = 3;
static Enqueue* enqueue;  // null: products run at once

// What a test asks of the fake.
void fake_lt_reset(void) {
  version = 130100;
  algos = 3;
  calls = failing_call = live = products = 0;
  failing_status = 0;
  enqueue = NULL;
}
void fake_lt_fail(long call, int status) {
  calls = 0;
  failing_call = call;
  failing_status = status;
}
long fake_lt_calls(void) { return calls; }
long fake_lt_live(void) { return live; }
long fake_lt_products(void) { return products; }
void fake_lt_queue(Enqueue* e) { enqueue = e; }
void fake_lt_version(size_t v) { version = v; }
void fake_lt_algos(int count) { algos = count; }

#define BEGIN \
  if (++calls == failing_call) return failing_status

static int make(void** at, size_t bytes) {
  *at = calloc(1, bytes);
  ++live;
  return 0;
}
static int end(void* at) {
  free(at);
  --live;
  return 0;
}

size_t cublasLtGetVersion(void) { return version; }
const char* cublasLtGetStatusName(int status) {
  return status == kNotSupported ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_FAKE";
}
int cublasLtCreate(void** handle) {
  BEGIN;
  return make(handle, 1);
}
int cublasLtDestroy(void* handle) { return end(handle); }
int cublasLtMatmulDescCreate(void** product, int compute, int scale) {
  BEGIN;
  if (scale != 0) return kInvalid;
  make(product, sizeof(Product));
  ((Product*)*product)->compute = compute;
  ((Product*)*product)->epilogue = 1;
  return 0;
}
int cublasLtMatmulDescDestroy(void* product) { return end(product); }
int cublasLtMatmulDescSetAttribute(Product* p, int attribute, const void* value, size_t bytes) {
  BEGIN;
  void* const to = attribute == 3    ? (void*)&p->transpose[0]
                   : attribute == 4  ? (void*)&p->transpose[1]
                   : attribute == 7  ? (void*)&p->epilogue
                   : attribute == 8  ? (void*)&p->bias
                   : attribute == 26 ? (void*)&p->bias_type
                                     : NULL;
  if (!to || bytes != (attribute == 8 ? 8 : 4)) return kInvalid;
  memcpy(to, value, bytes);
  return 0;
}
int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t columns, int64_t step) {
  BEGIN;
  make(layout, sizeof(Layout));
  *(Layout*)*layout = (Layout){type, 1, rows, columns, step, 0};
  return 0;
}
int cublasLtMatrixLayoutDestroy(void* layout) { return end(layout); }
int cublasLtMatrixLayoutSetAttribute(Layout* l, int attribute, const void* value, size_t bytes) {
  BEGIN;
  if (attribute == 5 && bytes == 4) {
    memcpy(&l->count, value, 4);
    return 0;
  }
  if (attribute == 6 && bytes == 8) {
    memcpy(&l->stride, value, 8);
    return 0;
  }
  return kInvalid;
}
int cublasLtMatmulPreferenceCreate(void** wishes) {
  BEGIN;
  return make(wishes, sizeof(Wishes));
}
int cublasLtMatmulPreferenceDestroy(void* wishes) { return end(wishes); }
int cublasLtMatmulPreferenceSetAttribute(Wishes* w, int attribute, const void* value, size_t bytes) {
  BEGIN;
  if (attribute == 1 && bytes == 8) {
    memcpy(&w->workspace, value, 8);
    return 0;
  }
  if (attribute == 3 && bytes == 4) {
    memcpy(&w->reductions, value, 4);
    return 0;
  }
  if (attribute >= 5 && attribute <= 8 && bytes == 4) {
    memcpy(&w->alignment[attribute - 5], value, 4);
    return 0;
  }
  return kInvalid;
}

// The k-th algorithm takes k KiB of workspace, and the third no epilogue.
static size_t workspace_of(const Algo* a) { return (size_t)(a->numbers[0] - kFirstAlgo) * 1024; }
static int takes(const Algo* a, const Product* p) {
  const uint32_t k = a->numbers[0] - kFirstAlgo;
  return k < (uint32_t)algos && a->numbers[1] == 20 + k && a->numbers[8] == 2 && !(k == 2 && p->epilogue != 1);
}
static int fits(const Product* p, const Layout* a, const Layout* b, const Layout* d) {
  const uint64_t m = p->transpose[0] ? a->columns : a->rows, k = p->transpose[0] ? a->rows : a->columns;
  const uint64_t n = p->transpose[1] ? b->rows : b->columns, k2 = p->transpose[1] ? b->columns : b->rows;
  const int one_type = a->type == b->type && a->type == d->type;
  const int bias = !(p->epilogue & 4) || (p->bias && p->bias_type == d->type);
  const int steps = a->step == (int64_t)a->rows && b->step == (int64_t)b->rows && d->step == (int64_t)d->rows;
  const int compute = p->compute == (d->type == 0 ? 69 : 68);
  return m == d->rows && n == d->columns && k == k2 && one_type && bias && steps && compute && a->count == d->count &&
         b->count == d->count;
}

int cublasLtMatmulAlgoGetHeuristic(void* handle, const Product* p, const Layout* a, const Layout* b, const Layout* c,
                                   const Layout* d, const Wishes* w, int most, Found* found, int* count) {
  BEGIN;
  if (!fits(p, a, b, d) || w->reductions != 2 || w->alignment[3] < 16) return kInvalid;
  *count = 0;
  for (int k = 0; k < algos && *count < most; ++k) {
    Found f = {0};
    f.algo.numbers[0] = kFirstAlgo + (uint32_t)k;
    f.algo.numbers[1] = 20 + (uint32_t)k;
    f.algo.numbers[8] = 2;
    f.algo.numbers[2] = k == 1 ? 4 : 1;
    f.workspace = workspace_of(&f.algo);
    if (takes(&f.algo, p) && f.workspace <= w->workspace) found[(*count)++] = f;
  }
  return *count > 0 ? 0 : kNotSupported;
}
int cublasLtMatmulAlgoInit(void* handle, int compute, int scale, int a, int b, int c, int d, int id, Algo* algo) {
  BEGIN;
  memset(algo, 0, sizeof *algo);
  algo->numbers[0] = (uint32_t)id;
  return id >= kFirstAlgo && id < kFirstAlgo + 10 ? 0 : kInvalid;
}
static size_t width(int attribute) { return attribute >= 7 ? 2 : 4; }
int cublasLtMatmulAlgoConfigSetAttribute(Algo* algo, int attribute, const void* value, size_t bytes) {
  BEGIN;
  if (attribute < 1 || attribute > 8 || bytes != width(attribute)) return kInvalid;
  memcpy(&algo->numbers[attribute], value, bytes);
  return 0;
}
int cublasLtMatmulAlgoConfigGetAttribute(const Algo* algo, int attribute, void* value, size_t bytes, size_t* written) {
  BEGIN;
  if (attribute < 0 || attribute > 8 || bytes != width(attribute)) return kInvalid;
  *written = bytes;
  memcpy(value, &algo->numbers[attribute], bytes);
  return 0;
}
int cublasLtMatmulAlgoCheck(void* handle, const Product* p, const Layout* a, const Layout* b, const Layout* c,
                            const Layout* d, const Algo* algo, Found* found) {
  BEGIN;
  if (!fits(p, a, b, d)) return kInvalid;
  found->workspace = workspace_of(algo);
  return takes(algo, p) ? 0 : kNotSupported;
}

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
  if (type == 14) ((uint16_t*)at)[k] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static float act(int epilogue, float v) {
  if (epilogue & 2) return v > 0 ? v : 0;
  if (epilogue & 32) return 0.5f * v * (1 + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
  return v;
}

// A product as it was enqueued. It is kept to the end: a graph may run it any number of times.
typedef struct {
  Product p;
  Layout al, bl, dl;
  float alpha, beta;
  const void *a, *b, *c;
  void *d, *workspace;
  size_t workspace_bytes;
} Call;
static void run(void* data) {
  const Call* const r = data;
  const Product* const p = &r->p;
  const Layout *al = &r->al, *bl = &r->bl, *dl = &r->dl;
  if (r->workspace_bytes) memset(r->workspace, 0xff, r->workspace_bytes);
  ++products;
  const int64_t depth = (int64_t)(p->transpose[0] ? al->rows : al->columns);
  for (int64_t z = 0; z < dl->count; ++z)
    for (int64_t j = 0; j < (int64_t)dl->columns; ++j)
      for (int64_t i = 0; i < (int64_t)dl->rows; ++i) {
        float sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += get(r->a, al->type, z * al->stride + (p->transpose[0] ? i * al->step + k : k * al->step + i)) *
                 get(r->b, bl->type, z * bl->stride + (p->transpose[1] ? k * bl->step + j : j * bl->step + k));
        const int64_t at = z * dl->stride + j * dl->step + i;
        float v = r->alpha * sum;
        if (r->beta != 0) v += r->beta * get(r->c, dl->type, at);
        if (p->epilogue & 4) v += get(p->bias, p->bias_type, i);
        put(r->d, dl->type, at, act(p->epilogue, v));
      }
}

int cublasLtMatmul(void* handle, const Product* p, const float* alpha, const void* a, const Layout* al, const void* b,
                   const Layout* bl, const float* beta, const void* c, const Layout* cl, void* d, const Layout* dl,
                   const Algo* algo, void* workspace, size_t workspace_bytes, void* stream) {
  BEGIN;
  if (!fits(p, al, bl, dl) || !takes(algo, p)) return kInvalid;
  if (workspace_bytes < workspace_of(algo) || (workspace_bytes && (uintptr_t)workspace % 256 != 0))
    return kExecutionFailed;
  Call call = {*p, *al, *bl, *dl, *alpha, *beta, a, b, c, d, workspace, workspace_bytes};
  if (enqueue)
    enqueue(stream, run, memcpy(malloc(sizeof call), &call, sizeof call));
  else
    run(&call);
  return 0;
}
