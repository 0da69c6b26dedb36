// The time is spent waiting for memory, not computing: a thread issues all of its loads first, for both products and
// the image, before it waits for any of them. Each row of a product is divided among a few lanes, so that all rows of a
// block are processed concurrently. The blocks of a cluster exchange their rows of the first product: each stores them
// into the memory of all.
#include "kernels/cuda/code/squeeze_text.hpp"

namespace peri::kernels::cuda {

namespace {
constexpr std::string_view kKernel = R"(
enum { kThreads = 512, kUnits = sizeof(PERI_STORED) / 2, kMiddle8 = (PERI_MIDDLE + 7) / 8 * 8 };
struct peri_eight { peri_16 unit[kUnits]; };  // neighbours as they are stored
// How rows of kCount elements are read: kLanes lanes for each, eight elements a lane at a time, at most kMost such at once.
template <int kCount, int kRows, int kOfRow, int kMost> struct peri_way {
  enum {
    kLanes = kOfRow,
    kHigh = kThreads / kLanes,
    kPasses = (kRows + kHigh - 1) / kHigh,
    kOfLane = ((kCount + 7) / 8 + kLanes - 1) / kLanes,
    kNow = kOfLane < kMost ? kOfLane : kMost,
    kTurns = (kOfLane + kNow - 1) / kNow,
    kSteps = kPasses * kTurns
  };
};
// Elements [c, c + 8) of `count`; zeros behind them.
template <bool kWide> PERI_DEVICE void peri_take(peri_eight& to, const PERI_STORED* const from, const int c, const int count) {
#pragma unroll
  for (int k = 0; k < kUnits; ++k)
#pragma unroll
    for (int j = 0; j < 4; ++j) to.unit[k].w[j] = 0;
  if (kWide) {
    if (c < count)
#pragma unroll
      for (int k = 0; k < kUnits; ++k) to.unit[k] = ((const peri_16*)(from + c))[k];
  } else {
#pragma unroll
    for (int e = 0; e < 8; ++e)
      if (c + e < count) ((PERI_STORED*)to.unit)[e] = from[c + e];
  }
}
PERI_DEVICE void peri_open(const peri_eight& from, float* const v) {
  const peri_eight own = from;
  PERI_LOAD_8((const PERI_STORED*)own.unit, v);
}
template <int kLanes> PERI_DEVICE peri_sum_type peri_of_lanes(peri_sum_type v) {
#pragma unroll
  for (int d = kLanes / 2; d > 0; d /= 2) v += peri_other_lane(v, d);
  return v;
}
template <class Way, bool kWide> PERI_DEVICE void peri_take_step(peri_eight* const to, const PERI_STORED* const matrix, const int step, const int count, const int rows) {
  const int r = step / Way::kTurns * Way::kHigh + (int)threadIdx.x / Way::kLanes;
#pragma unroll
  for (int k = 0; k < Way::kNow; ++k)
    peri_take<kWide>(to[k], matrix + (PERI_INDEX)r * count, ((step % Way::kTurns * Way::kNow + k) * Way::kLanes + (int)threadIdx.x % Way::kLanes) * 8,
                     r < rows ? count : 0);
}
template <bool kAligned> PERI_DEVICE void peri_squeeze_of(float* const middle, PERI_PARAMETERS) {
  float* const factor = middle + kMiddle8;
  const int t = threadIdx.x, slice = (int)(blockIdx.x % PERI_SLICES), own = slice % PERI_BLOCKS;
  const PERI_INDEX image = blockIdx.x / PERI_SLICES;
  const int first_row = own * PERI_ROWS, left_rows = PERI_MIDDLE - first_row, rows = left_rows < PERI_ROWS ? left_rows : PERI_ROWS;
  const int begin = slice * PERI_EACH, left = PERI_RESULTS - begin, count = left < 0 ? 0 : left < PERI_EACH ? left : PERI_EACH;
  const PERI_STORED* const x = PERI_X + image * PERI_CHANNELS;
  const PERI_STORED* const w = PERI_W + (PERI_INDEX)first_row * PERI_CHANNELS;
  const PERI_STORED* const w_two = PERI_V + (PERI_INDEX)begin * PERI_MIDDLE;
  constexpr bool wide = kAligned && PERI_CHANNELS % 8 == 0, wide_two = kAligned && PERI_MIDDLE % 8 == 0;
  typedef peri_way<PERI_CHANNELS, PERI_ROWS, PERI_LANES, wide ? 8 / kUnits : 1> peri_one;
  typedef peri_way<PERI_MIDDLE, PERI_EACH, PERI_LANES_TWO, wide_two ? 4 / kUnits : 1> peri_two;
#if PERI_BLOCKS > 1
  peri_cluster_arrive();  // all have begun before any stores into another's memory
#endif
  const int row = t / peri_one::kLanes, row_two = t / peri_two::kLanes;
  peri_eight of_x[peri_one::kNow], of_w[peri_one::kNow], of_two[peri_two::kNow];
  const int lane_x = t % peri_one::kLanes;
#pragma unroll
  for (int k = 0; k < peri_one::kNow; ++k) peri_take<wide>(of_x[k], x, (k * peri_one::kLanes + lane_x) * 8, PERI_CHANNELS);
  peri_take_step<peri_one, wide>(of_w, w, 0, PERI_CHANNELS, rows);
  float bias = row < rows ? PERI_B(first_row + row) : 0.0f;
  peri_take_step<peri_two, wide_two>(of_two, w_two, 0, PERI_MIDDLE, count);
  float bias_two = row_two < count ? PERI_C(begin + row_two) : 0.0f;
#if PERI_SCALES
  enum { kChunk = kAligned && PERI_RESULTS % 8 == 0 ? 8 : 1, kAhead = kChunk == 8 ? 2 / kUnits : 0 };  // so is a slice a multiple of it
  const int chunks = count / kChunk;
  const PERI_INDEX all = PERI_PIXELS * chunks, corner = image * PERI_PIXELS * PERI_RESULTS + begin;
  peri_eight ahead[kAhead + 1];
#pragma unroll
  for (int a = 0; a < kAhead; ++a) {
    const PERI_INDEX k = t + a * kThreads;
    if (k < all) peri_take<true>(ahead[a], PERI_IMAGE + corner + k / chunks * PERI_RESULTS, (int)(k % chunks) * 8, PERI_EACH);
  }
#endif
  for (int k = PERI_MIDDLE + t; k < kMiddle8; k += kThreads) middle[k] = 0.0f;
  peri_sum_type sum = 0;
  for (int step = 0; step < peri_one::kSteps; ++step) {
#pragma unroll
    for (int k = 0; k < peri_one::kNow; ++k) {
      float a[8], b[8];
      peri_open(of_w[k], a);
      peri_open(of_x[k], b);
      sum = peri_dot_8(a, b, sum);
    }
    const float bias_now = bias;
    if (step + 1 < peri_one::kSteps) {
      const int next = row + (step + 1) / peri_one::kTurns * peri_one::kHigh, turn = (step + 1) % peri_one::kTurns;
      peri_take_step<peri_one, wide>(of_w, w, step + 1, PERI_CHANNELS, rows);
      if (peri_one::kTurns > 1)
#pragma unroll
        for (int k = 0; k < peri_one::kNow; ++k)
          peri_take<wide>(of_x[k], x, ((turn * peri_one::kNow + k) * peri_one::kLanes + lane_x) * 8, PERI_CHANNELS);
      bias = next < rows ? PERI_B(first_row + next) : 0.0f;
    }
    if (step % peri_one::kTurns != peri_one::kTurns - 1) continue;
    const float v = peri_of_lanes<peri_one::kLanes>(sum) + bias_now;
    sum = 0;
    const int r = row + step / peri_one::kTurns * peri_one::kHigh;
    const float made = PERI_BETWEEN;
#if PERI_BLOCKS > 1
    if (step == peri_one::kTurns - 1) peri_cluster_wait();
    if (r < rows)
      for (int b = lane_x; b < PERI_BLOCKS; b += peri_one::kLanes) peri_give(peri_shared_at(middle + first_row + r), b, made);
#else
    if (r < rows && lane_x == 0) middle[r] = made;
#endif
  }
#if PERI_BLOCKS > 1
  peri_cluster_arrive();
  peri_cluster_wait();
#else
  __syncthreads();
#endif
  const int lane = t % peri_two::kLanes;
  for (int step = 0; step < peri_two::kSteps; ++step) {
#pragma unroll
    for (int k = 0; k < peri_two::kNow; ++k) {
      const int c = ((step % peri_two::kTurns * peri_two::kNow + k) * peri_two::kLanes + lane) * 8;
      float a[8], b[8];
      if (c >= PERI_MIDDLE) continue;
      peri_open(of_two[k], a);
      peri_load_8_f32(middle + c, b);
      sum = peri_dot_8(a, b, sum);
    }
    const float bias_now = bias_two;
    if (step + 1 < peri_two::kSteps) {
      const int next = row_two + (step + 1) / peri_two::kTurns * peri_two::kHigh;
      peri_take_step<peri_two, wide_two>(of_two, w_two, step + 1, PERI_MIDDLE, count);
      bias_two = next < count ? PERI_C(begin + next) : 0.0f;
    }
    if (step % peri_two::kTurns != peri_two::kTurns - 1) continue;
    const float v = peri_of_lanes<peri_two::kLanes>(sum) + bias_now;
    sum = 0;
    const int r = row_two + step / peri_two::kTurns * peri_two::kHigh;
    if (r >= count || lane != 0) continue;
#if PERI_SCALES
    factor[r] = PERI_BEHIND;
#else
    peri_finish(image * PERI_RESULTS + begin + r, v, PERI_PASS);
#endif
  }
#if PERI_SCALES
  __syncthreads();
#pragma unroll
  for (int a = 0; a < kAhead; ++a) {
    const PERI_INDEX k = t + a * kThreads;
    if (k >= all) continue;
    const int r = (int)(k % chunks) * 8;
    float v[8];
    peri_open(ahead[a], v);
#pragma unroll
    for (int e = 0; e < 8; ++e) v[e] *= factor[r + e];
    PERI_STORE_8(PERI_OUT + corner + k / chunks * PERI_RESULTS + r, v);
  }
#pragma unroll 4
  for (PERI_INDEX k = t + kAhead * kThreads; k < all; k += kThreads) {
    const int r = (int)(k % chunks) * kChunk;
    const PERI_INDEX i = corner + k / chunks * PERI_RESULTS + r;
    if (kChunk == 8) {
      float v[8];
      PERI_LOAD_8(PERI_IMAGE + i, v);
#pragma unroll
      for (int e = 0; e < 8; ++e) v[e] *= factor[r + e];
      PERI_STORE_8(PERI_OUT + i, v);
    } else {
      PERI_OUT[i] = PERI_STORE(PERI_LOAD(PERI_IMAGE[i]) * factor[r]);
    }
  }
#endif
}
PERI_KERNEL __launch_bounds__(512, 1) peri_squeeze(PERI_PARAMETERS) {
  PERI_DYNAMIC(memory);
  if (PERI_ALIGNED)
    peri_squeeze_of<true>(memory, PERI_PASS);
  else
    peri_squeeze_of<false>(memory, PERI_PASS);
}
)";
}  // namespace

std::string_view squeeze_text() { return kKernel; }

}  // namespace peri::kernels::cuda
