// Peak arithmetic and copy rates.
#include "bench/peaks.hpp"

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "base/tensor.hpp"
#include "base/thread_pool.hpp"
#include "bench/byte_peaks.hpp"
#include "bench/measure.hpp"
#include "bench/together.hpp"
#include "device/load.hpp"
#include "device/target.hpp"

namespace peri::bench {

namespace {
constexpr int64_t kRounds = 200000;  // about half a millisecond: a clock reading and the start of threads vanish in it
constexpr int kChains = 12;          // latency 4 times 2 ports, with room

// One asm block with its accumulators in registers: written as C++ over an array, the compiler kept the array in memory
// and each chain waited for stores. a * x + b with a < 1 stays near a normal number.
#define PERI_ONE(R) "vmovaps %[b], %%" R "\n\t"
#define PERI_FMA(R) "vfmadd213ps %[b], %[a], %%" R "\n\t"
#define PERI_FMA_LOOP(NAME, TARGET, WIDTH, V)                                                                         \
  __attribute__((target(TARGET), noinline)) void NAME() {                                                             \
    typedef float Vec __attribute__((vector_size(4 * (WIDTH))));                                                      \
    const Vec a = Vec{} + 0.999f, b = Vec{} + 1e-3f;                                                                  \
    int64_t rounds = kRounds;                                                                                         \
    asm volatile(                                                                                                     \
        PERI_ONE(V "0") PERI_ONE(V "1") PERI_ONE(V "2") PERI_ONE(V "3") PERI_ONE(V "4") PERI_ONE(V "5")               \
            PERI_ONE(V "6") PERI_ONE(V "7") PERI_ONE(V "8") PERI_ONE(V "9") PERI_ONE(V "10")                          \
                PERI_ONE(V "11") ".p2align 5\n1:\n\t" PERI_FMA(V "0") PERI_FMA(V "1") PERI_FMA(V "2") PERI_FMA(V "3") \
                    PERI_FMA(V "4") PERI_FMA(V "5") PERI_FMA(V "6") PERI_FMA(V "7") PERI_FMA(V "8") PERI_FMA(V "9")   \
                        PERI_FMA(V "10") PERI_FMA(V "11") "dec %[rounds]\n\tjnz 1b"                                   \
        : [rounds] "+r"(rounds)                                                                                       \
        : [a] "x"(a), [b] "x"(b)                                                                                      \
        : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "cc");    \
  }
PERI_FMA_LOOP(fma_avx2, "avx2,fma", 8, "ymm")
PERI_FMA_LOOP(fma_avx512, "avx512f,fma", 16, "zmm")
#undef PERI_ONE
#undef PERI_FMA
#undef PERI_FMA_LOOP

double best_fma_gflops(ThreadPool& pool, double seconds) {
  const bool wide = device::this_cpu().has("avx512");
  if (!wide && !device::this_cpu().has("avx2")) return 0;
  const double flops = 2.0 * kRounds * kChains * (wide ? 16 : 8) * pool.threads();
  return flops / 1e9 /
         shortest(seconds, [&] { return seconds_together(pool, [&](int64_t) { wide ? fma_avx512() : fma_avx2(); }); });
}

// Reads `bytes`, a multiple of 256, and gives something of what was read, so that no load can be left out.
#define PERI_READ_LOOP(NAME, TARGET, WIDTH)                                                      \
  __attribute__((target(TARGET), noinline)) int64_t NAME(const std::byte* from, int64_t bytes) { \
    typedef int64_t Vec __attribute__((vector_size(WIDTH), aligned(8)));                         \
    Vec a{}, b{}, c{}, d{};                                                                      \
    for (const std::byte* end = from + bytes; from != end; from += 4 * (WIDTH)) {                \
      const Vec* v = reinterpret_cast<const Vec*>(from);                                         \
      a ^= v[0], b ^= v[1], c ^= v[2], d ^= v[3];                                                \
    }                                                                                            \
    a ^= b ^ c ^ d;                                                                              \
    return a[0] ^ a[1];                                                                          \
  }
PERI_READ_LOOP(read_avx2, "avx2", 32)
PERI_READ_LOOP(read_avx512, "avx512f", 64)
#undef PERI_READ_LOOP

struct Rates {
  double copy_gbs = 0, read_gbs = 0;
};
// Bytes of each thread's part of half a working set.
int64_t part_of(int64_t working_set, const ThreadPool& pool) {
  return std::max<int64_t>(4096, working_set / 2 / pool.threads() / 256 * 256);
}

// Best rates of `seconds` of copying and as much of reading, each thread on its own part of the working set, which is
// the beginning of `from` and `to`.
Rates best_rates(ThreadPool& pool, Tensor* from, Tensor* to, int64_t working_set, double seconds) {
  const int64_t part = part_of(working_set, pool);
  const bool wide = device::this_cpu().has("avx512"), reads = device::this_cpu().has("avx2");
  const int repeats = static_cast<int>(std::max<int64_t>(1, (int64_t{4} << 20) / part));
  const double bytes = 2.0 * static_cast<double>(part * pool.threads()) * repeats;
  Rates best;
  auto time = [&](auto&& task) {
    return bytes / 1e9 / shortest(seconds, [&] { return seconds_together(pool, task); });
  };
  best.copy_gbs = time([&](int64_t task) {
    for (int k = 0; k < repeats; ++k) {
      std::memcpy(to->mutable_data() + task * part, from->bytes().data() + task * part, static_cast<size_t>(part));
      asm volatile("" ::: "memory");
    }
  });
  if (reads)
    best.read_gbs = time([&](int64_t task) {
      for (int k = 0; k < repeats; ++k)
        for (const Tensor* t : {from, to}) {
          volatile int64_t keep = wide ? read_avx512(t->bytes().data() + task * part, part)
                                       : read_avx2(t->bytes().data() + task * part, part);
          (void)keep;
        }
    });
  return best;
}
}  // namespace

double Peaks::rate_gbs(double bytes) const {
  double rate = 0;
  for (const auto* list : {&copy_gbs, &read_gbs}) {
    double own = list->empty() ? 0 : list->front().second;
    for (const auto& [size, gbs] : *list)
      if (static_cast<double>(size) <= bytes) own = gbs;
    rate = std::max(rate, own);
  }
  return rate;
}

Peaks measure_peaks(int threads, double seconds) {
  Peaks p;
  // More threads than CPUs take turns: each would be timed in its own slice, and their rates added.
  p.threads = std::clamp(threads, 1, device::cpu_limits().usable());
  ThreadPool pool(p.threads);
  const std::vector<int64_t> sets = {int64_t{32} << 10, int64_t{512} << 10, int64_t{8} << 20, int64_t{128} << 20};
  for (const int64_t bytes : sets) {
    p.copy_gbs.emplace_back(bytes, 0);
    p.read_gbs.emplace_back(bytes, 0);
  }
  const int64_t most = part_of(sets.back(), pool) * pool.threads();
  auto from = Tensor::zeros(DType::kU8, {most}), to = Tensor::zeros(DType::kU8, {most});
  // Memory that nobody has written is one page of zeros everywhere, which is read from the nearest cache, and the first
  // write of each page costs its own time.
  for (auto* t : {&from, &to})
    if (t->ok()) std::memset((*t)->mutable_data(), 1, static_cast<size_t>(most));
  // Round after round over everything: a moment in which others had the CPUs spoils one try of each and not all of one.
  const int turns = seconds < 0.25 ? 1 : 5;
  for (int turn = 0; turn < turns; ++turn) {
    p.fma_gflops = std::max(p.fma_gflops, best_fma_gflops(pool, seconds / (10 * turns)));
    p.byte_gops = std::max(p.byte_gops, best_byte_gops(pool, seconds / (10 * turns)));
    if (!from.ok() || !to.ok()) continue;
    for (size_t k = 0; k < sets.size(); ++k) {
      const Rates rates = best_rates(pool, &*from, &*to, sets[k], seconds / (10 * turns));
      p.copy_gbs[k].second = std::max(p.copy_gbs[k].second, rates.copy_gbs);
      p.read_gbs[k].second = std::max(p.read_gbs[k].second, rates.read_gbs);
    }
  }
  return p;
}

double measured_clock_ghz() {
  constexpr int64_t kRounds = 100000, kProducts = 8, kCycles = 3;  // of a product, on every x86 processor since 2008
  const double seconds = shortest(2e-3, [] {
    int64_t left = kRounds, one = 1;
    const int64_t start = now_ns();
    asm volatile(
        ".p2align 5\n1:\n\t"
        "imul %[one], %[one]\n\timul %[one], %[one]\n\timul %[one], %[one]\n\timul %[one], %[one]\n\t"
        "imul %[one], %[one]\n\timul %[one], %[one]\n\timul %[one], %[one]\n\timul %[one], %[one]\n\t"
        "dec %[left]\n\tjnz 1b"
        : [left] "+r"(left), [one] "+r"(one)
        :
        : "cc");
    return static_cast<double>(now_ns() - start) * 1e-9;
  });
  return static_cast<double>(kRounds * kProducts * kCycles) / seconds * 1e-9;
}

double sustained_ms(const Peaks& peaks, double flops, double byte_flops, double bytes) {
  const double rate = peaks.rate_gbs(bytes);
  const double byte_rate = peaks.byte_gops > 0 ? peaks.byte_gops : peaks.fma_gflops;
  double arithmetic = peaks.fma_gflops > 0 ? (flops - byte_flops) / peaks.fma_gflops / 1e6 : 0;
  if (byte_rate > 0) arithmetic += byte_flops / byte_rate / 1e6;
  return std::max(arithmetic, rate > 0 ? bytes / rate / 1e6 : 0);
}

namespace {
void write_rates(JsonWriter& w, std::string_view key, const std::vector<std::pair<int64_t, double>>& rates) {
  w.key(key).begin_array();
  for (const auto& [bytes, gbs] : rates)
    w.begin_object().field("working_set_bytes", bytes).field("gbs", gbs).end_object();
  w.end_array();
}

Status read_rates(const Json& json, std::string_view key, std::vector<std::pair<int64_t, double>>* rates) {
  PERI_ASSIGN(const Json::Array* list, json.get_array(key));
  for (const Json& j : *list) {
    PERI_ASSIGN(const int64_t bytes, j.get_int("working_set_bytes"));
    PERI_ASSIGN(const double gbs, j.get_double("gbs"));
    if (bytes <= 0 || !(gbs >= 0)) return invalid("a rate of %g GB/s", gbs);
    rates->emplace_back(bytes, gbs);
  }
  return Ok{};
}
}  // namespace

void write_peaks(JsonWriter& w, const Peaks& p) {
  w.begin_object().field("threads", p.threads).field("fma_gflops", p.fma_gflops).field("byte_gops", p.byte_gops);
  write_rates(w, "copy_gbs", p.copy_gbs);
  write_rates(w, "read_gbs", p.read_gbs);
  w.end_object();
}

Result<Peaks> read_peaks(const Json& json) {
  Peaks p;
  PERI_ASSIGN(const int64_t threads, json.get_int("threads"));
  PERI_ASSIGN(p.fma_gflops, json.get_double("fma_gflops"));
  if (const Json* bytes = json.find("byte_gops")) {  // proofs of earlier versions have none
    PERI_ASSIGN(p.byte_gops, bytes->as_double());
  }
  if (threads < 1 || threads > INT32_MAX || !(p.fma_gflops >= 0) || !(p.byte_gops >= 0))
    return invalid("peaks of no machine");
  p.threads = static_cast<int>(threads);
  PERI_TRY(read_rates(json, "copy_gbs", &p.copy_gbs));
  PERI_TRY(read_rates(json, "read_gbs", &p.read_gbs));
  return p;
}

}  // namespace peri::bench
