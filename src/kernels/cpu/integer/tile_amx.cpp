// The tile for AMX: 32 rows of two panels in four tile registers.
#include <immintrin.h>

#include "kernels/cpu/integer/tile.hpp"

namespace peri::kernels::cpu::integer {
namespace avx512amx {
namespace {
constexpr int64_t kTileRows = 16, kTileBytes = 1024;

struct alignas(64) Config {
  uint8_t palette = 1, start = 0, unused[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Two blocks of rows (kTwoRows) and two panels (kTwoPanels), or one.
template <bool kTwoRows, bool kTwoPanels>
void tile(const uint8_t* a, int64_t lda, const int8_t* b, int64_t panel, int64_t steps, int32_t* c) {
  constexpr int64_t kRow = kGroup * kPanel, kRowBytes = kRow * static_cast<int64_t>(sizeof(int32_t));
  _tile_zero(0);
  if constexpr (kTwoPanels) _tile_zero(1);
  if constexpr (kTwoRows) _tile_zero(2);
  if constexpr (kTwoRows && kTwoPanels) _tile_zero(3);
  for (int64_t s = 0; s < steps; ++s, a += kDepth, b += kTileBytes) {
    _tile_loadd(4, a, lda);
    _tile_loadd(6, b, kDepth);
    _tile_dpbusd(0, 4, 6);
    if constexpr (kTwoPanels) {
      _tile_loadd(7, b + panel, kDepth);
      _tile_dpbusd(1, 4, 7);
    }
    if constexpr (kTwoRows) {
      _tile_loadd(5, a + kTileRows * lda, lda);
      _tile_dpbusd(2, 5, 6);
    }
    if constexpr (kTwoRows && kTwoPanels) _tile_dpbusd(3, 5, 7);
  }
  _tile_stored(0, c, kRowBytes);
  if constexpr (kTwoPanels) _tile_stored(1, c + kPanel, kRowBytes);
  if constexpr (kTwoRows) _tile_stored(2, c + kTileRows * kRow, kRowBytes);
  if constexpr (kTwoRows && kTwoPanels) _tile_stored(3, c + kTileRows * kRow + kPanel, kRowBytes);
}

void run(const TileArgs& g) {
  static const Config kConfig;
  const int64_t steps = (g.k + kDepth - 1) / kDepth;
  _tile_loadconfig(&kConfig);
  for (int64_t p = 0; p < g.panels; p += 2)
    for (int64_t row = 0; row < g.rows; row += 2 * kTileRows) {
      const bool two_rows = g.rows - row > kTileRows, two_panels = g.panels - p > 1;
      const auto f = two_rows ? (two_panels ? &tile<true, true> : &tile<true, false>)
                              : (two_panels ? &tile<false, true> : &tile<false, false>);
      f(g.a + row * g.lda, g.lda, g.b + p * g.panel_bytes, g.panel_bytes, steps,
        g.c + row * kGroup * kPanel + p * kPanel);
    }
  _tile_release();
}
}  // namespace
}  // namespace avx512amx

const Tiles kTilesAmx = {&avx512amx::run, kDepth, 16};

}  // namespace peri::kernels::cpu::integer
