// Peak arithmetic and copy rates.
#include "bench/peaks.hpp"

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "base/tensor.hpp"
#include "base/thread_pool.hpp"

namespace peri::bench {

namespace {
constexpr int64_t kRounds = 20000;
constexpr int kChains = 12;  // latency 4 times 2 ports, with room

// The instruction itself: contraction is off in this build, and the compiler must not fold the chain.
#define PERI_FMA_LOOP(NAME, TARGET, WIDTH)                                               \
  __attribute__((target(TARGET), noinline)) float NAME() {                               \
    typedef float Vec __attribute__((vector_size(4 * WIDTH)));                           \
    Vec acc[kChains];                                                                    \
    for (int k = 0; k < kChains; ++k) acc[k] = Vec{} + static_cast<float>(k);            \
    Vec a = Vec{} + 0.999f, b = Vec{} + 1e-3f;                                           \
    for (int64_t n = 0; n < kRounds; ++n) {                                              \
      _Pragma("GCC unroll 12") for (int k = 0; k < kChains; ++k) {                       \
        asm volatile("vfmadd213ps %2, %1, %0" : "+v"(acc[k]) : "v"(a), "v"(b));          \
      }                                                                                  \
    }                                                                                    \
    float sum = 0;                                                                       \
    for (int k = 0; k < kChains; ++k) sum += acc[k][0];                                  \
    return sum;                                                                          \
  }
PERI_FMA_LOOP(fma_avx2, "avx2,fma", 8)
PERI_FMA_LOOP(fma_avx512, "avx512f,fma", 16)
#undef PERI_FMA_LOOP

double best_fma_gflops(ThreadPool& pool, double seconds) {
  __builtin_cpu_init();
  const bool wide = __builtin_cpu_supports("avx512f");
  if (!wide && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return 0;
  const double flops = 2.0 * kRounds * kChains * (wide ? 16 : 8) * pool.threads();
  double best = 0;
  const int64_t begin = now_ns();
  do {
    const int64_t start = now_ns();
    pool.run(pool.threads(), [&](int64_t, int) {
      volatile float keep = wide ? fma_avx512() : fma_avx2();
      (void)keep;
    });
    best = std::max(best, flops / seconds_since(start) / 1e9);
  } while (seconds_since(begin) < seconds);
  return best;
}

double best_copy_gbs(ThreadPool& pool, int64_t working_set, double seconds) {
  const int64_t part = std::max<int64_t>(4096, working_set / 2 / pool.threads());
  auto from = Tensor::zeros(DType::kU8, {part * pool.threads()}), to = Tensor::zeros(DType::kU8, {part * pool.threads()});
  if (!from.ok() || !to.ok()) return 0;
  const int repeats = static_cast<int>(std::max<int64_t>(1, (int64_t{4} << 20) / part));
  double best = 0;
  const int64_t begin = now_ns();
  do {
    const int64_t start = now_ns();
    pool.run(pool.threads(), [&](int64_t task, int) {
      for (int k = 0; k < repeats; ++k) {
        std::memcpy(to->mutable_data() + task * part, from->bytes().data() + task * part, static_cast<size_t>(part));
        asm volatile("" ::: "memory");
      }
    });
    best = std::max(best, 2.0 * static_cast<double>(part * pool.threads()) * repeats / seconds_since(start) / 1e9);
  } while (seconds_since(begin) < seconds);
  return best;
}
}  // namespace

double Peaks::rate_gbs(double bytes) const {
  double rate = copy_gbs.empty() ? 0 : copy_gbs[0].second;
  for (const auto& [size, gbs] : copy_gbs)
    if (static_cast<double>(size) <= bytes) rate = gbs;
  return rate;
}

Peaks measure_peaks(int threads, double seconds) {
  Peaks p;
  p.threads = threads;
  ThreadPool pool(threads);
  p.fma_gflops = best_fma_gflops(pool, seconds / 5);
  for (const int64_t bytes : {int64_t{32} << 10, int64_t{512} << 10, int64_t{8} << 20, int64_t{128} << 20})
    p.copy_gbs.emplace_back(bytes, best_copy_gbs(pool, bytes, seconds / 5));
  return p;
}

double floor_ms(const Peaks& peaks, double flops, double bytes) {
  const double rate = peaks.rate_gbs(bytes);
  const double arithmetic = peaks.fma_gflops > 0 ? flops / peaks.fma_gflops / 1e6 : 0;
  return std::max(arithmetic, rate > 0 ? bytes / rate / 1e6 : 0);
}

}  // namespace peri::bench
