// The register tiles for AVX-512: 13 x 32. Compiled with this Isa's flags; nothing here runs unless isa.hpp selects it.
#include "kernels/cpu/simd/vec_avx512.hpp"  // first: math.hpp needs it

#include "kernels/cpu/gemm/post_body.hpp"
#include "kernels/cpu/gemm/tile_body.hpp"

namespace peri::kernels::cpu {
namespace {

using V = simd::avx512::F32;

template <int kRows, int kPerPanel, int kPanels>
constexpr TileFn kTile = &tile_body::tile<V, kRows, kPerPanel, kPanels>;

}  // namespace

// Fourteen rows would use all 32 registers, but rows 4 KiB apart then collide in a 12-way L1: 250 against 261 GFLOP/s
// at k = 1024, 3072, and no faster than thirteen otherwise (Zen 5, one thread, 2026-11-21).
constexpr TileTable kTable = {
    .lanes = V::kLanes,
    .max_rows = 13,
    .one = {kTile<1, 1, 1>, kTile<2, 1, 1>, kTile<3, 1, 1>, kTile<4, 1, 1>, kTile<5, 1, 1>, kTile<6, 1, 1>,
            kTile<7, 1, 1>, kTile<8, 1, 1>, kTile<9, 1, 1>, kTile<10, 1, 1>, kTile<11, 1, 1>, kTile<12, 1, 1>,
            kTile<13, 1, 1>, kTile<14, 1, 1>},
    .two = {kTile<1, 2, 1>, kTile<2, 2, 1>, kTile<3, 2, 1>, kTile<4, 2, 1>, kTile<5, 2, 1>, kTile<6, 2, 1>,
            kTile<7, 2, 1>, kTile<8, 2, 1>, kTile<9, 2, 1>, kTile<10, 2, 1>, kTile<11, 2, 1>, kTile<12, 2, 1>,
            kTile<13, 2, 1>, kTile<14, 2, 1>},
    .wide = {{kTile<1, 2, 2>, kTile<2, 2, 2>, kTile<3, 2, 2>, kTile<4, 2, 2>, kTile<5, 2, 2>, kTile<6, 2, 2>,
              kTile<7, 2, 2>},
             {kTile<1, 2, 3>, kTile<2, 2, 3>},
             {kTile<1, 2, 4>, kTile<2, 2, 4>}},
    .post = &post_body::post<V>,
};
const TileTable tile_table_avx512 = kTable;

}  // namespace peri::kernels::cpu
