// A product of 16-bit operands on tensor cores, whatever they are read from: matrices, or the pixels of a convolution.
// Blocks take tiles of the result, copy what they need ahead into shared memory, and sum in float32.
#pragma once

#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels::cuda {

// c(batch, m, n) = sum over k of a(batch, m, k) * b(batch, k, n).
struct TiledProduct {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool sizes_are_numbers = true;              // n and k, of the text; else parameters
  DType type = DType::kF16;                   // of both operands; or kBF16
  bool a_along_m = false, b_along_n = false;  // neighbours in memory; else both along k
  // Eight neighbours from a multiple of eight on lie together at a multiple of 16 bytes, or are all outside.
  bool a_wide = false, b_wide = false, c_wide = false;
  // Functions of the text (all take PERI_PARAMETERS at the end), for X = a with m, X = b with n:
  //   struct peri_X_line;  peri_X_line peri_X_line_of(PERI_INDEX batch, PERI_INDEX m)    any m
  //   struct peri_X_step;  peri_X_step peri_X_step_of(PERI_INDEX batch, PERI_INDEX k)    any k
  //   wide:  const unsigned short* peri_X_from(line, step, bool* there)       the eight, at a multiple of 16 bytes
  //                                                                           also where they are not there
  //   else:  unsigned short peri_X(line, step)                                one element; 0 outside
  // PERI_WHOLE_N, PERI_WHOLE_K: 1 where no n or k is outside.
  //   peri_sum_8(float* v, PERI_INDEX batch, m, n), float peri_sum(float v, batch, m, n)      bias and factors
  //   and where PERI_COLUMN is 1:  peri_column_8(float* c, batch, n), float peri_scaled(float v)     with v + c instead
  //   PERI_INDEX peri_place(PERI_INDEX batch, PERI_INDEX m, PERI_INDEX n)     of the result
  // and those of the chain behind it, eight neighbours at a time.
  std::string functions;
  std::vector<PackedWeight> packed = {};  // see LaunchInstance
  // A kernel of the text that runs first and fills so much of the workspace, for so many threads; of the depth in one
  // part only.
  std::string first = {};
  int64_t first_threads = 0;
  size_t first_bytes = 0;
  std::vector<int64_t> usual_m = {};  // for which configurations are offered, whatever m is
  // For guesses: bytes of a that memory gives for an element of it, fewer than 2 where several read one; of operands
  // that the chain reads for an element of the result.
  double a_bytes = 2, chain_bytes = 0;
};

// Tiles and parts of the depth as texts of configurations, "tm=64 tn=64 warps=4 split=1", best guess for the sizes on
// such a GPU first, none that it has no room for. The same ones for each m: the `most` that look best for each of
// `usual_m`, and some more with clusters where the GPU has them.
struct TileConfig {
  std::string text;
  double guess_ms = 0;
};
std::vector<TileConfig> tile_configs(const TiledProduct& product, const GpuLimits& gpu, size_t most);
// "tk" and "stages".
const std::vector<Tunable>& tile_tunables();
// "cluster=1": the parts of a tile are a cluster of blocks, which joins them in the same launch; where the GPU has none
// they are joined by a launch of their own, as without it. `tk` and `stages` 0: derived. Errors: kInvalid for a
// configuration that is none of those.
Result<std::unique_ptr<Instance>> tile_instance(const TiledProduct& product, std::string_view config, int64_t tk,
                                                int64_t stages, int64_t most_elements, const GpuLimits& gpu,
                                                Signature* signature);

}  // namespace peri::kernels::cuda
