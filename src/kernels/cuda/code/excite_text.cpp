// Channels are divided among the blocks of a cluster; each computes the means, rows of the first product and factors of
// its own, and reads the others' from their shared memory.
#include "kernels/cuda/code/excite_text.hpp"

namespace peri::kernels::cuda {

namespace {
constexpr std::string_view kKernel = R"(
enum { kThreads = 512, kChunk = 8 * sizeof(PERI_STORED), kAtOnce = kThreads / 8 };
PERI_DEVICE void peri_meet() {
#if PERI_BLOCKS > 1
  peri_cluster_arrive();
  peri_cluster_wait();
#else
  __syncthreads();
#endif
}
// What a block of the cluster has where this one has `own`.
PERI_DEVICE void peri_of_8(float* v, const float* own, const int block) {
#if PERI_BLOCKS > 1
  peri_peer_8(v, peri_shared_at(own), block);
#else
  peri_load_8_f32(own, v);
#endif
}
// A copy into shared memory that is under way, of a multiple of sixteen bytes.
PERI_DEVICE void peri_bring(const PERI_STORED* const to, const PERI_STORED* const from, const int count, const bool aligned) {
  if (aligned)
    for (int k = threadIdx.x; k < count / 8 * (kChunk / 16); k += kThreads)
      peri_fetch(peri_shared_at(to) + k * 16, (const char*)from + k * 16, true);
  else
    for (int k = threadIdx.x; k < count; k += kThreads) ((PERI_STORED*)to)[k] = from[k];
}
PERI_DEVICE float peri_dot(const PERI_STORED* const w, const float* const x, const int count, const bool wide) {
  const int lane = threadIdx.x % 32;
  float v = 0.0f;
  if (wide) {
    for (int c = lane * 8; c < count; c += 32 * 8) {
      float own[8];
      PERI_LOAD_8(w + c, own);
#pragma unroll
      for (int e = 0; e < 8; ++e) v = fmaf(own[e], x[c + e], v);
    }
  } else {
    for (int c = lane; c < count; c += 32) v = fmaf(PERI_LOAD(w[c]), x[c], v);
  }
  return peri_block_sum(v, (float*)0);
}
PERI_DEVICE void peri_read_8(const PERI_STORED* const from, float* const v, const bool aligned) {
  if (aligned) {
    PERI_LOAD_8(from, v);
  } else {
    for (int e = 0; e < 8; ++e) v[e] = PERI_LOAD(from[e]);
  }
}
PERI_KERNEL __launch_bounds__(512, 1) peri_excite(PERI_PARAMETERS) {
  PERI_DYNAMIC(memory);
  const int own = (int)(blockIdx.x % PERI_BLOCKS), t = threadIdx.x, warp = t / 32, lane = t % 32;
  const PERI_INDEX image = blockIdx.x / PERI_BLOCKS;
  const int channels = (int)PERI_CHANNELS, middles = (int)PERI_MIDDLE, each = (int)PERI_EACH, rows = (int)PERI_ROWS;
  const bool aligned = PERI_ALIGNED, kept = PERI_KEPT && aligned;
  // This block's channels, a multiple of eight, and its rows of the first product.
  const int first = own * each, end = first + each < channels ? first + each : channels, count = end > first ? end - first : 0;
  const int first_row = own * rows, last = first_row + rows < middles ? first_row + rows : middles;
  const int own_rows = last > first_row ? last - first_row : 0;
  float* const mean = memory;
  float* const part = mean + each;
  float* const x = part + rows;
  float* const middle = x + each * PERI_BLOCKS;
  float* const factor = middle + rows * PERI_BLOCKS;
  float* const sums = factor + each;
  float* const fewer = sums + kThreads * 8;
  PERI_STORED* const w_here = (PERI_STORED*)(fewer + kThreads);
  PERI_STORED* const v_here = w_here + (PERI_BROUGHT ? rows * channels : 0);
  PERI_STORED* const pixels_here = v_here + (PERI_BROUGHT ? each * middles : 0);
  const PERI_STORED* const w = PERI_BROUGHT ? w_here : PERI_W + first_row * channels;
  const PERI_STORED* const v_of = PERI_BROUGHT ? v_here : PERI_V + first * middles;
  const PERI_STORED* const from = PERI_IMAGE + image * PERI_PIXELS * channels + first;
  PERI_STORED* const to = PERI_OUT + image * PERI_PIXELS * channels + first;
  const int chunks = count / 8;
  // Threads stand eight channels wide and, of at most 512 channels at once, as many pixels high as there are threads.
  if (kept)
    for (int begin = 0; begin < chunks; begin += kAtOnce) {
      const int wide = chunks - begin < kAtOnce ? chunks - begin : kAtOnce, high = kThreads / wide;
      const int chunk = begin + t % wide;
      if (t / wide < high)
        for (int p = t / wide; p < PERI_PIXELS; p += high)
#pragma unroll
          for (int k = 0; k < kChunk / 16; ++k)
            peri_fetch(peri_shared_at(pixels_here + (p * chunks + chunk) * 8) + k * 16,
                       (const char*)(from + (PERI_INDEX)p * channels + chunk * 8) + k * 16, true);
    }
  peri_fetched();
  if (PERI_BROUGHT) {
    peri_bring(w_here, PERI_W + first_row * channels, own_rows * channels, aligned);
    peri_bring(v_here, PERI_V + first * middles, count * middles, aligned);
  }
  peri_fetched();
  peri_wait<1>();
  for (int begin = 0; begin < chunks; begin += kAtOnce) {
    const int wide = chunks - begin < kAtOnce ? chunks - begin : kAtOnce, high = kThreads / wide;
    const int chunk = begin + t % wide, lines = high < PERI_PIXELS ? high : (int)PERI_PIXELS;
    if (t / wide < lines) {
      float v[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) v[e] = 0.0f;
#pragma unroll 4
      for (int p = t / wide; p < PERI_PIXELS; p += high) {
        float more[8];
        if (kept)
          PERI_LOAD_8(pixels_here + (p * chunks + chunk) * 8, more);
        else
          peri_read_8(from + (PERI_INDEX)p * channels + chunk * 8, more, aligned);
#pragma unroll
        for (int e = 0; e < 8; ++e) v[e] += more[e];
      }
      peri_store_8_f32(sums + t * 8, v);
    }
    __syncthreads();
    const int of = wide * 8, pieces = kThreads / of;  // channels at hand, each summed in so many pieces
    if (t / of < pieces) {
      float v = 0.0f;
      for (int line = t / of; line < lines; line += pieces) v += sums[line * of + t % of];
      fewer[t] = v;
    }
    __syncthreads();
    if (t < of) {
      float v = 0.0f;
      for (int piece = 0; piece < pieces; ++piece) v += fewer[piece * of + t];
      mean[begin * 8 + t] = v / (float)PERI_PIXELS;
    }
    __syncthreads();
  }
  peri_wait<0>();
  peri_meet();
  for (int k = t * 8; k < channels; k += kThreads * 8) peri_of_8(x + k, mean + k % each, k / each);
  __syncthreads();
  for (int r = warp; r < rows; r += kThreads / 32) {
    if (r >= own_rows) {
      if (lane == 0) part[r] = 0.0f;
      continue;
    }
    const float v = peri_dot(w + r * channels, x, channels, aligned) + PERI_B(first_row + r);
    if (lane == 0) part[r] = PERI_BETWEEN;
  }
  peri_meet();
  for (int k = t * 8; k < rows * PERI_BLOCKS; k += kThreads * 8) peri_of_8(middle + k, part + k % rows, k / rows);
  __syncthreads();
#if PERI_BLOCKS > 1
  peri_cluster_arrive();
#endif
  for (int r = warp; r < count; r += kThreads / 32) {
    const float v = peri_dot(v_of + r * middles, middle, middles, aligned && middles % 8 == 0) + PERI_C(first + r);
    if (lane == 0) factor[r] = PERI_BEHIND;
  }
  __syncthreads();
  for (int begin = 0; begin < chunks; begin += kAtOnce) {
    const int wide = chunks - begin < kAtOnce ? chunks - begin : kAtOnce, high = kThreads / wide;
    const int chunk = begin + t % wide;
    if (t / wide < high)
#pragma unroll 4
      for (int p = t / wide; p < PERI_PIXELS; p += high) {
        const PERI_INDEX at = (PERI_INDEX)p * channels + chunk * 8;
        float v[8];
        if (kept)
          PERI_LOAD_8(pixels_here + (p * chunks + chunk) * 8, v);
        else
          peri_read_8(from + at, v, aligned);
#pragma unroll
        for (int e = 0; e < 8; ++e) v[e] *= factor[chunk * 8 + e];
        if (aligned) {
          PERI_STORE_8(to + at, v);
        } else {
          for (int e = 0; e < 8; ++e) to[at + e] = PERI_STORE(v[e]);
        }
      }
  }
#if PERI_BLOCKS > 1
  peri_cluster_wait();  // a block's memory stays until all have read it
#endif
}
)";
}  // namespace

std::string_view excite_text() { return kKernel; }

}  // namespace peri::kernels::cuda
