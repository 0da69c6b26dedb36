// Attentions in the fake cuDNN: the operations of the graph one after the other, as they are described, in float32.

enum { kMaxOperands = 8, kOpMul = 1, kOpDiv = 6, kOpSub = 9, kOpExp = 13, kOpLog = 15, kOpNotLess = 303 };
enum { kOpIndex = 501, kOpSelect = 601, kReduceMax = 3 };

static int operations(const Descriptor* graph) { return (int)attribute(graph, 801)->count; }
// As the real one (9.19): two products, and the logarithm of the sums between, or no engine knows it.
static int is_attention(const Descriptor* graph) {
  int products = 0, logs = 0;
  for (int k = 0; k < operations(graph); ++k) {
    const Descriptor* const op = part(graph, 801, k);
    products += op->type == kMultiply;
    logs += op->type == kApply && number(part(op, 750, 0), 0) == kOpLog;
  }
  return products == 2 && logs == 1;
}

typedef struct {
  const Descriptor* graph;
  int count;
  int64_t ids[kMaxOperands];
  void* at[kMaxOperands];
  float numbers[kMaxOperands];  // of those that the host gives
  void* workspace;
} Attend;
// An inner value, by the name of its tensor.
typedef struct {
  int64_t ids[32];
  float* all[32];
  int count;
} Inner;

static float* inner_of(Inner* inner, const Descriptor* t) {
  const int64_t id = whole(t, 906, 0);
  for (int k = 0; k < inner->count; ++k)
    if (inner->ids[k] == id) return inner->all[k];
  int64_t size = 1;
  for (int k = 0; k < 4; ++k) size *= whole(t, 902, k);
  inner->ids[inner->count] = id;
  return inner->all[inner->count++] = calloc((size_t)size, sizeof(float));
}
// One dimension of one element repeats.
static int64_t place(const Descriptor* t, const int64_t* i) {
  int64_t out = 0;
  for (int k = 0; k < 4; ++k) out += whole(t, 902, k) == 1 ? 0 : i[k] * whole(t, 903, k);
  return out;
}
static int operand(const Attend* a, const Descriptor* t) {
  for (int k = 0; k < a->count; ++k)
    if (a->ids[k] == whole(t, 906, 0)) return k;
  abort();
}
static int is_inner(const Descriptor* t) { return *(const char*)attribute(t, 907)->values; }
static float read_at(const Attend* a, Inner* inner, const Descriptor* t, const int64_t* i) {
  if (!t) return 0;
  if (is_inner(t)) return inner_of(inner, t)[place(t, i)];
  const int k = operand(a, t);
  return attribute(t, 908) ? a->numbers[k] : get(a->at[k], number(t, 901), place(t, i));
}
static void write_at(const Attend* a, Inner* inner, const Descriptor* t, const int64_t* i, float v) {
  if (!is_inner(t)) {
    put(a->at[operand(a, t)], number(t, 901), place(t, i), v);
  } else if (number(t, 901) == 2 || number(t, 901) == 9) {  // rounded to a type of 16 bits
    float room;                                             // of any type
    put(&room, number(t, 901), 0, v);
    inner_of(inner, t)[place(t, i)] = get(&room, number(t, 901), 0);
  } else {
    inner_of(inner, t)[place(t, i)] = v;
  }
}

static float pointwise(const Descriptor* op, const int64_t* i, float x, float b, float t) {
  const Descriptor* const how = part(op, 750, 0);
  switch (number(how, 0)) {
    case kOpMul: return x * b;
    case kOpDiv: return x / b;
    case kOpSub: return x - b;
    case kOpExp: return expf(x);
    case kOpLog: return logf(x);
    case kOpNotLess: return x >= b;
    case kOpIndex: return (float)i[whole(how, 9, 0)];
    case kOpSelect: return t != 0 ? x : b;
    default: return x + b;
  }
}
static float product(const Attend* a, Inner* inner, const Descriptor* op, const int64_t* i) {
  const Descriptor *left = part(op, 1520, 0), *right = part(op, 1521, 0);
  const int64_t sharing = whole(left, 902, 1) / whole(right, 902, 1);
  float sum = 0;
  for (int64_t k = 0; k < whole(left, 902, 3); ++k) {
    const int64_t l[] = {i[0], i[1], i[2], k}, r[] = {i[0], i[1] / sharing, k, i[3]};
    sum += read_at(a, inner, left, l) * read_at(a, inner, right, r);
  }
  return sum;
}
static float reduced(const Attend* a, Inner* inner, const Descriptor* op, const int64_t* i) {
  const Descriptor* const x = part(op, 1610, 0);
  const int most = number(part(op, 1612, 0), 1600) == kReduceMax;
  float out = most ? -INFINITY : 0;
  for (int64_t k = 0; k < whole(x, 902, 3); ++k) {
    const int64_t at[] = {i[0], i[1], i[2], k};
    const float v = read_at(a, inner, x, at);
    out = most ? (v > out ? v : out) : out + v;
  }
  return out;
}
static void operate(const Attend* a, Inner* inner, const Descriptor* op) {
  const Descriptor* const y = part(op, op->type == kMultiply ? 1522 : op->type == kReduce ? 1611 : 753, 0);
  int64_t i[4];
  for (i[0] = 0; i[0] < whole(y, 902, 0); ++i[0])
    for (i[1] = 0; i[1] < whole(y, 902, 1); ++i[1])
      for (i[2] = 0; i[2] < whole(y, 902, 2); ++i[2])
        for (i[3] = 0; i[3] < whole(y, 902, 3); ++i[3])
          write_at(a, inner, y, i,
                   op->type == kMultiply ? product(a, inner, op, i)
                   : op->type == kReduce
                       ? reduced(a, inner, op, i)
                       : pointwise(op, i, read_at(a, inner, part(op, 751, 0), i),
                                   read_at(a, inner, part(op, 752, 0), i), read_at(a, inner, part(op, 758, 0), i)));
}
static void run_attention(void* data) {
  const Attend* const a = data;
  Inner inner = {0};
  ++runs;
  if (a->workspace) memset(a->workspace, 0xff, 1024);
  for (int k = 0; k < operations(a->graph); ++k) operate(a, &inner, part(a->graph, 801, k));
  for (int k = 0; k < inner.count; ++k) free(inner.all[k]);
}

// The host's numbers are read now, as by the real one; the graph is there as long as its plan.
static int attend(const Descriptor* graph, const Descriptor* pack, void* workspace, int needs_workspace) {
  Attend a = {.graph = graph, .count = (int)attribute(pack, 1000)->count, .workspace = workspace};
  if (a.count > kMaxOperands || (needs_workspace && (!workspace || (uintptr_t)workspace % 256 != 0))) return kBadParam;
  for (int k = 0; k < a.count; ++k) {
    a.ids[k] = whole(pack, 1000, k);
    a.at[k] = (void*)(intptr_t)whole(pack, 1001, k);
    if (!a.at[k]) return kBadParam;
    if (a.ids[k] == 10 || a.ids[k] == 11) a.numbers[k] = *(const float*)a.at[k];
  }
  if (enqueue)
    enqueue(stream, run_attention, memcpy(malloc(sizeof a), &a, sizeof a));
  else
    run_attention(&a);
  return 0;
}
