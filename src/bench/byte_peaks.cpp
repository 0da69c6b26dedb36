// Loops of integer products whose operands stay in registers or tiles.
#include "bench/byte_peaks.hpp"

#include <immintrin.h>

#include "bench/together.hpp"
#include "device/target.hpp"

namespace peri::bench {

namespace {
constexpr int64_t kRounds = 100000;  // a quarter of a millisecond and more: a clock reading vanishes in it
constexpr int kChains = 12;          // latency 5 times 2 ports, with room

// Sums stay in registers, as in peaks.cpp. vpdpbusd: four products of a lane are added to it.
#define PERI_ONE(R) "vpxord %%" R ", %%" R ", %%" R "\n\t"
#define PERI_DOT(R) "vpdpbusd %[b], %[a], %%" R "\n\t"
#define PERI_ALL(F) \
  F("zmm0")         \
  F("zmm1") F("zmm2") F("zmm3") F("zmm4") F("zmm5") F("zmm6") F("zmm7") F("zmm8") F("zmm9") F("zmm10") F("zmm11")
__attribute__((target("avx512f,avx512vnni"), noinline)) void dot_avx512() {
  const __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(1);
  int64_t rounds = kRounds;
  asm volatile(PERI_ALL(PERI_ONE) ".p2align 5\n1:\n\t" PERI_ALL(PERI_DOT) "dec %[rounds]\n\tjnz 1b"
               : [rounds] "+r"(rounds)
               : [a] "v"(a), [b] "v"(b)
               : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                 "cc");
}
#undef PERI_ONE
#undef PERI_DOT
#undef PERI_ALL

// Pairs of products in 16 bits, of these pairs in 32, added: what products of bytes are without VNNI.
constexpr int kPairChains = 4;
__attribute__((target("avx2"), noinline)) void pairs_avx2() {
  const __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(1), ones = _mm256_set1_epi16(1);
  int64_t rounds = kRounds;
#define PERI_PAIRS(SUM, T) \
  "vpmaddubsw %[b], %[a], %%" T "\n\tvpmaddwd %[ones], %%" T ", %%" T "\n\tvpaddd %%" T ", %%" SUM ", %%" SUM "\n\t"
  asm volatile(
      "vpxor %%ymm0, %%ymm0, %%ymm0\n\tvpxor %%ymm1, %%ymm1, %%ymm1\n\tvpxor %%ymm2, %%ymm2, %%ymm2\n\t"
      "vpxor %%ymm3, %%ymm3, %%ymm3\n\t.p2align 5\n1:\n\t" PERI_PAIRS("ymm0", "ymm4") PERI_PAIRS("ymm1", "ymm5")
          PERI_PAIRS("ymm2", "ymm6") PERI_PAIRS("ymm3", "ymm7") "dec %[rounds]\n\tjnz 1b"
      : [rounds] "+r"(rounds)
      : [a] "x"(a), [b] "x"(b), [ones] "x"(ones)
      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "cc");
#undef PERI_PAIRS
}

// Products of tiles of 16 rows and 64 bytes, four sums of two tiles by two.
constexpr int kTileProducts = 4;
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);
// Constants in memory: the compiler does not know that the instructions read more of it than they name.
constexpr TileConfig kConfig;
alignas(64) constexpr uint8_t kFactors[16 * 64] = {1, 2, 3};
__attribute__((target("amx-tile,amx-int8"), noinline)) void tiles() {
  _tile_loadconfig(&kConfig);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, kFactors, 64);
  _tile_loadd(5, kFactors, 64);
  _tile_loadd(6, kFactors, 64);
  _tile_loadd(7, kFactors, 64);
  for (int64_t k = 0; k < kRounds / 16; ++k) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  _tile_release();
}
}  // namespace

double best_byte_gops(ThreadPool& pool, double seconds) {
  const device::Target& cpu = device::this_cpu();
  void (*loop)() = nullptr;
  double ops = 0;  // of a thread
  if (cpu.has("amx_int8")) {
    loop = tiles;
    constexpr auto kTileRounds = kRounds / 16;
    ops = 2.0 * kTileRounds * kTileProducts * 16 * 16 * 64;
  } else if (cpu.has("avx512_vnni")) {
    loop = dot_avx512;
    ops = 2.0 * kRounds * kChains * 64;
  } else if (cpu.has("avx2")) {
    loop = pairs_avx2;
    ops = 2.0 * kRounds * kPairChains * 32;
  } else {
    return 0;
  }
  return ops * pool.threads() / 1e9 /
         shortest(seconds, [&] { return seconds_together(pool, [&](int64_t) { loop(); }); });
}

}  // namespace peri::bench
