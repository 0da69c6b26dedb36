// The offers and the instance of a kernel whose row-major problem is one tiled product (tiles.hpp).
#pragma once

#include <algorithm>

#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/tiles.hpp"

namespace peri::kernels::cuda {

struct ReadTiles {
  TiledProduct product;
  Signature signature;
};

constexpr size_t kMaxTileConfigs = 4;  // of such a kernel, for each of its usual numbers of rows

// What the tunables "tk" and "stages" are set to; 0: to be derived.
struct TileSettings {
  int64_t tk = 0, stages = 0;
};
Result<TileSettings> tile_settings(std::string_view config);

// kRead(const Problem&) gives ReadTiles, or what has its members, or refuses.
template <auto kRead>
Result<std::vector<Offer>> tiled_offer(const Problem& p, const Target& target) {
  PERI_TRY(check_gpu(target));
  PERI_TRY(check_row_major(*p.graph));
  PERI_ASSIGN(const auto r, kRead(p));
  return tile_offers(plain_offer(p)[0], r.product, limits_of(target), kMaxTileConfigs);
}
template <auto kRead>
Result<std::unique_ptr<Instance>> tiled_instance(const Problem& p, std::string_view config,
                                                 const InstantiateContext& context) {
  PERI_ASSIGN(const TileSettings set, tile_settings(config));
  PERI_ASSIGN(auto r, kRead(p));
  const int64_t most = std::max(most_elements(p), r.product.m * r.product.n);
  return tile_instance(r.product, config, set.tk, set.stages, most, limits_of(*context.target), &r.signature);
}

}  // namespace peri::kernels::cuda
