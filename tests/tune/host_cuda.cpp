// The host's CUDA.
#include "tests/tune/host_cuda.hpp"

namespace peri::tune {

namespace {
constexpr std::string_view kText = R"(#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <vector>
struct Three { int x; };
static Three threadIdx, blockIdx, gridDim, blockDim;
// Of a cluster: blocks whose threads run beside each other, the threads of the first before those of the second. Static
// shared memory is one for all blocks, so that a kernel of clusters may have dynamic alone.
enum { kBlocks = 8, kThreadsOfABlock = 1024, kFibers = kBlocks * kThreadsOfABlock };
static std::vector<float> peri_dynamic_memories[kBlocks];
static size_t peri_dynamic_bytes;
static ucontext_t peri_main, peri_fiber[kFibers];
static bool peri_done[kFibers];
static char* peri_stacks;  // as much as has been touched
static int peri_now, peri_own;  // the fiber, and its block of the cluster
static void (*peri_body)(void**, const long long*);
static void** peri_addresses;
static const long long* peri_sizes;
static void peri_fault(const char* what) { fprintf(stderr, "thread %d: %s\n", peri_now, what); abort(); }

// Threads that wait until all of them that still run are there.
struct Meeting { int arrived, running; unsigned turn; };
static Meeting peri_cluster, peri_blocks[kBlocks], peri_warp[kFibers / 32];
static long long peri_progress;
static void peri_meet(Meeting* m) {
  const unsigned turn = m->turn;
  ++m->arrived;
  while (m->turn == turn) {
    if (m->arrived >= m->running) {
      m->arrived = 0, ++m->turn, ++peri_progress;
      break;
    }
    swapcontext(&peri_fiber[peri_now], &peri_main);
  }
}
static void __syncthreads() { peri_meet(&peri_blocks[peri_own]); }
static void peri_lanes_meet() { peri_meet(&peri_warp[peri_now / 32]); }
static void peri_start() {
  peri_body(peri_addresses, peri_sizes);
  peri_done[peri_now] = true, ++peri_progress;
  --peri_cluster.running, --peri_blocks[peri_own].running, --peri_warp[peri_now / 32].running;
}

// Copies under way, by thread; those of a group arrive when it is waited for.
struct Fetch { unsigned at; const void* from; unsigned bytes; };
static std::vector<std::vector<Fetch>> peri_groups[kFibers];
static int peri_fiber_of(const int block, const int thread) { return block * kThreadsOfABlock + thread; }
static void peri_begin(const int block, const int threads) {
  const size_t kStack = 64 << 10;
  if (!peri_stacks) peri_stacks = (char*)malloc(kFibers * kStack);
  peri_blocks[block] = {0, threads, 0};
  for (int w = 0; w < 32; ++w)
    peri_warp[block * 32 + w] = {0, threads >= 32 * w + 32 ? 32 : threads > 32 * w ? threads - 32 * w : 0, 0};
  for (int t = peri_fiber_of(block, 0); t < peri_fiber_of(block, threads); ++t) {
    getcontext(&peri_fiber[t]);
    peri_fiber[t].uc_stack.ss_sp = peri_stacks + t * kStack;
    peri_fiber[t].uc_stack.ss_size = kStack;
    peri_fiber[t].uc_link = &peri_main;
    peri_done[t] = false;
    peri_groups[t].assign(1, {});
    makecontext(&peri_fiber[t], peri_start, 0);
  }
}
static void peri_run(void (*body)(void**, const long long*), bool meets, long long blocks, int threads, int cluster,
                     long long shared, void** addresses, const long long* sizes) {
  peri_body = body, peri_addresses = addresses, peri_sizes = sizes;
  if (cluster < 1 || cluster > kBlocks || blocks % cluster != 0 || threads > kThreadsOfABlock) peri_fault("no such launch");
  for (int b = 0; b < cluster; ++b) peri_dynamic_memories[b].assign(shared / sizeof(float) + 1, NAN);
  peri_dynamic_bytes = (size_t)shared;
  gridDim.x = (int)blocks, blockDim.x = threads;
  for (long long first = 0; first < blocks; first += cluster) {
    blockIdx.x = (int)first, peri_own = 0;
    if (!meets) {
      for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) body(addresses, sizes);
      continue;
    }
    peri_cluster = {0, threads * cluster, 0};
    for (int b = 0; b < cluster; ++b) peri_begin(b, threads);
    for (bool more = true; more;) {
      more = false;
      const long long before = peri_progress;
      for (int b = cluster - 1; b >= 0; --b)
        for (int t = threads - 1; t >= 0; --t) {
          const int fiber = peri_fiber_of(b, t);
          if (peri_done[fiber]) continue;
          peri_now = fiber, threadIdx.x = t, blockIdx.x = (int)first + b, peri_own = b;
          swapcontext(&peri_main, &peri_fiber[fiber]);
          more = more || !peri_done[fiber];
        }
      if (more && before == peri_progress) peri_fault("threads wait for each other");
    }
  }
}
#define __launch_bounds__(...)
#define PERI_DEVICE static inline
#define PERI_KERNEL static void
#define PERI_SHARED static
#define PERI_DYNAMIC(NAME) float* const NAME = peri_dynamic_memories[peri_own].data()
#define PERI_TABLE static const
PERI_DEVICE double __hiloint2double(int high, int low) {
  const unsigned long long w = (unsigned long long)(unsigned)high << 32 | (unsigned)low;
  double v;
  memcpy(&v, &w, 8);
  return v;
}
PERI_DEVICE int __double2loint(double v) { int w[2]; memcpy(w, &v, 8); return w[0]; }
PERI_DEVICE int __double2hiint(double v) { int w[2]; memcpy(w, &v, 8); return w[1]; }
PERI_DEVICE float peri_bits(unsigned v) { float f; memcpy(&f, &v, 4); return f; }
PERI_DEVICE unsigned peri_word(float v) { unsigned w; memcpy(&w, &v, 4); return w; }
PERI_DEVICE float peri_from_f16(unsigned short v) { _Float16 h; memcpy(&h, &v, 2); return (float)h; }
PERI_DEVICE unsigned short peri_to_f16(float v) { const _Float16 h = (_Float16)v; unsigned short w; memcpy(&w, &h, 2); return w; }
PERI_DEVICE unsigned peri_pair_f16(float low, float high) { return peri_to_f16(low) | (unsigned)peri_to_f16(high) << 16; }
PERI_DEVICE unsigned short peri_nearest_bf16(float v) {
  const unsigned w = peri_word(v);
  return (unsigned short)(v != v ? 0x7fffu : (w + 0x7fffu + ((w >> 16) & 1u)) >> 16);
}
PERI_DEVICE unsigned peri_pair_bf16(float low, float high) { return peri_nearest_bf16(low) | (unsigned)peri_nearest_bf16(high) << 16; }

static float peri_exp2(const float v) { return exp2f(v); }
static float peri_reciprocal(const float v) { return 1.0f / v; }
PERI_DEVICE float peri_max(float a, float b) { return a > b || a != a ? a : b; }
PERI_DEVICE float peri_min(float a, float b) { return a < b || a != a ? a : b; }
static char* peri_place_of(const int block, const unsigned at, const unsigned bytes) {
  if (at % bytes != 0 || at + bytes > peri_dynamic_bytes) peri_fault("an address outside of shared memory, or not aligned");
  return (char*)peri_dynamic_memories[block].data() + at;
}
static char* peri_place(const unsigned at, const unsigned bytes) { return peri_place_of(peri_own, at, bytes); }
static unsigned peri_shared_at(const void* p) { return (unsigned)((const char*)p - (const char*)peri_dynamic_memories[peri_own].data()); }
static void peri_fetch(const unsigned at, const void* from, const bool there) {
  peri_place(at, 16);
  if ((size_t)from % 16 != 0) peri_fault("a fetch of an address that is not aligned");
  peri_groups[peri_now].back().push_back({at, there ? from : nullptr, 16});
}
static void peri_fetch_half(const unsigned at, const void* from, const bool there, const unsigned beside) {
  char* const to = peri_place(at, 8);
  if (beside != 0u && !there) {
    memcpy(to, &beside, 4), memcpy(to + 4, &beside, 4);
    return;
  }
  if ((size_t)from % 8 != 0) peri_fault("a fetch of an address that is not aligned");
  peri_groups[peri_now].back().push_back({at, there ? from : nullptr, 8});
}
static void peri_fetched() { peri_groups[peri_now].push_back({}); }
template <int N> static void peri_wait() {
  auto& groups = peri_groups[peri_now];  // the last one is not ended
  while ((int)groups.size() - 1 > N) {
    for (const Fetch& f : groups.front())
      f.from ? memcpy(peri_place(f.at, f.bytes), f.from, f.bytes) : memset(peri_place(f.at, f.bytes), 0, f.bytes);
    groups.erase(groups.begin());
  }
}
template <class T> static void peri_put(const unsigned at, const T& x) { memcpy(peri_place(at, 16), &x, 16); }

// What each lane of a warp shows to all others; by turns, since a lane may be one exchange ahead.
static unsigned peri_shown[kFibers / 32][2][32][8], peri_exchanges[kFibers];
typedef const unsigned (*peri_lanes)[8];
static peri_lanes peri_show(const unsigned* words, const int count) {
  const int warp = peri_now / 32, turn = peri_exchanges[peri_now]++ & 1;
  for (int k = 0; k < count; ++k) peri_shown[warp][turn][peri_now % 32][k] = words[k];
  peri_lanes_meet();
  return peri_shown[warp][turn];
}
static void peri_matrices(unsigned* r, const unsigned at) {
  const peri_lanes all = peri_show(&at, 1);
  const int lane = peri_now % 32;
  for (int j = 0; j < 4; ++j) memcpy(&r[j], peri_place(all[8 * j + lane / 4][0], 16) + lane % 4 * 4, 4);
}
static void peri_matrices_across(unsigned* r, const unsigned at) {
  const peri_lanes all = peri_show(&at, 1);
  const int lane = peri_now % 32;
  for (int j = 0; j < 4; ++j)
    for (int e = 0; e < 2; ++e)
      memcpy((char*)&r[j] + 2 * e, peri_place(all[8 * j + lane % 4 * 2 + e][0], 16) + lane / 4 * 2, 2);
}
template <class F> static void peri_mma(float* d, const unsigned* a, const unsigned* b, const F from) {
  const unsigned mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  const peri_lanes all = peri_show(mine, 6);
  const int lane = peri_now % 32;
  for (int o = 0; o < 4; ++o) {
    const int row = lane / 4, half = o / 2, column = lane % 4 * 2 + o % 2;
    for (int k = 0; k < 16; ++k) {
      const int of = k % 8 / 2, shift = k % 2 * 16;
      const float x = from((unsigned short)(all[row * 4 + of][k / 8 * 2 + half] >> shift));
      const float y = from((unsigned short)(all[column * 4 + of][4 + k / 8] >> shift));
      d[o] += x * y;
    }
  }
}
static void peri_mma_f16(float* d, const unsigned* a, const unsigned* b) { peri_mma(d, a, b, peri_from_f16); }
static void peri_mma_bf16(float* d, const unsigned* a, const unsigned* b) {
  peri_mma(d, a, b, [](unsigned short v) { return peri_bits((unsigned)v << 16); });
}
// Two bytes an element; those of b are signed. Sums are int32 whose bits d holds.
template <class T> static void peri_mma_bytes(float* d, const unsigned* a, const unsigned* b) {
  const unsigned mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  const peri_lanes all = peri_show(mine, 6);
  const int lane = peri_now % 32;
  for (int o = 0; o < 4; ++o) {
    const int row = lane / 4, half = o / 2, column = lane % 4 * 2 + o % 2;
    unsigned sum = peri_word(d[o]);
    for (int k = 0; k < 32; ++k) {
      const int of = k % 16 / 4, shift = k % 4 * 8;
      const T x = (T)(all[row * 4 + of][k / 16 * 2 + half] >> shift);
      sum += (unsigned)((int)x * (signed char)(all[column * 4 + of][4 + k / 16] >> shift));
    }
    d[o] = peri_bits(sum);
  }
}
static void peri_mma_u8(float* d, const unsigned* a, const unsigned* b) { peri_mma_bytes<unsigned char>(d, a, b); }
static void peri_mma_i8(float* d, const unsigned* a, const unsigned* b) { peri_mma_bytes<signed char>(d, a, b); }
static void peri_mma_f64(double* d, const double* a, const double b) {
  unsigned mine[6];
  memcpy(mine, a, 16), memcpy(mine + 4, &b, 8);
  const peri_lanes all = peri_show(mine, 6);
  const int lane = peri_now % 32;
  for (int o = 0; o < 4; ++o)
    for (int k = 0; k < 4; ++k) {
      double x, y;
      memcpy(&x, all[lane / 4 * 4 + k] + o / 2 * 2, 8);
      memcpy(&y, all[(lane % 4 * 2 + o % 2) * 4 + k] + 4, 8);
      d[o] += x * y;
    }
}
static float peri_lane_xor(const float v, const int mask) {
  const unsigned mine = peri_word(v);
  return peri_bits(peri_show(&mine, 1)[(peri_now % 32) ^ mask][0]);
}
static double peri_lane_xor(const double v, const int mask) {
  unsigned mine[2];
  memcpy(mine, &v, 8);
  double out;
  memcpy(&out, peri_show(mine, 2)[(peri_now % 32) ^ mask], 8);
  return out;
}
static unsigned peri_bytes_of(const unsigned a, const unsigned b, const unsigned which) {
  unsigned out = 0;
  for (int k = 0; k < 4; ++k) {
    const unsigned at = which >> 4 * k & 7u;
    out |= ((at < 4 ? a : b) >> 8 * (at % 4) & 255u) << 8 * k;
  }
  return out;
}
static void peri_cluster_arrive() {}
static void peri_cluster_wait() { peri_meet(&peri_cluster); }
static void peri_peer_8(float* v, const unsigned at, const int block) {
  if (peri_blocks[block].running == 0) peri_fault("shared memory of a block that has ended, or is none of the cluster");
  for (int k = 0; k < 8; k += 4) memcpy(v + k, peri_place_of(block, at + 4 * k, 16), 16);
}
static float peri_peer(const unsigned at, const int block) {
  if (peri_blocks[block].running == 0) peri_fault("shared memory of a block that has ended, or is none of the cluster");
  float v;
  memcpy(&v, peri_place_of(block, at, 4), 4);
  return v;
}
static double peri_peer_f64(const unsigned at, const int block) {
  if (peri_blocks[block].running == 0) peri_fault("shared memory of a block that has ended, or is none of the cluster");
  double v;
  memcpy(&v, peri_place_of(block, at, 8), 8);
  return v;
}
static void peri_give(const unsigned at, const int block, const float v) {
  if (peri_blocks[block].running == 0) peri_fault("shared memory of a block that has ended, or is none of the cluster");
  memcpy(peri_place_of(block, at, 4), &v, 4);
}
)";
}  // namespace

std::string_view host_cuda() { return kText; }

}  // namespace peri::tune
