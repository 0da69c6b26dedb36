// The register tiles for AVX2 with FMA: 6 x 16. Compiled with this Isa's flags; nothing here runs unless isa.hpp
// selects it.
#include "kernels/cpu/simd/vec_avx2.hpp"  // first: math.hpp needs it

#include "kernels/cpu/gemm/post_body.hpp"
#include "kernels/cpu/gemm/tile_body.hpp"

namespace peri::kernels::cpu {
namespace {

using V = simd::avx2::F32;

template <int kRows, int kPerPanel, int kPanels>
constexpr TileFn kTile = &tile_body::tile<V, kRows, kPerPanel, kPanels>;

}  // namespace

constexpr TileTable kTable = {
    .lanes = V::kLanes,
    .max_rows = 6,
    .one = {kTile<1, 1, 1>, kTile<2, 1, 1>, kTile<3, 1, 1>, kTile<4, 1, 1>, kTile<5, 1, 1>, kTile<6, 1, 1>},
    .two = {kTile<1, 2, 1>, kTile<2, 2, 1>, kTile<3, 2, 1>, kTile<4, 2, 1>, kTile<5, 2, 1>, kTile<6, 2, 1>},
    .wide = {{kTile<1, 2, 2>, kTile<2, 2, 2>, kTile<3, 2, 2>}, {kTile<1, 2, 3>}, {kTile<1, 2, 4>}},
    .post = &post_body::post<V>,
};
const TileTable tile_table_avx2 = kTable;

}  // namespace peri::kernels::cpu
