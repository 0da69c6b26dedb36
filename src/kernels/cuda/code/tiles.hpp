// A product of 16-bit operands on tensor cores with operands from any source: matrices, or the pixels of a convolution.
// Blocks compute tiles of the result, prefetch operands into shared memory, and accumulate in float32. Bytes take the
// same way as pairs, each an element of 16 bits: their sums are int32, whose bits every float of the text below holds.
#pragma once

#include "kernels/cuda/code/signature.hpp"

namespace peri::kernels::cuda {

// c(batch, m, n) = sum over k of a(batch, m, k) * b(batch, k, n).
struct TiledProduct {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool sizes_are_numbers = true;  // n and k are constants in the text; else parameters
  // Of both operands, kF16 or kBF16; or kU8 or kI8, that of the bytes of a, where those of b are signed.
  DType type = DType::kF16;
  bool a_along_m = false, b_along_n = false;  // contiguous along m (along n); else both along k
  // Eight elements from a multiple of eight on are contiguous at a multiple of 16 bytes, or all out of range.
  bool a_wide = false, b_wide = false, c_wide = false;
  bool a_halves = false;  // a_wide of four elements at a multiple of 8 bytes: each eight is two of them
  // What each four bytes of a are that are out of range along m, if not 0; only with a_wide.
  std::string a_beside = {};
  bool row_sums = false;  // of bytes: sums of a over the depth, too; the depth in one part, or joined by a cluster
  bool a_made = false;    // what is read of a is not yet its elements: peri_a_made makes them; only with a_wide
  // Functions of the text (all take PERI_PARAMETERS at the end), for X = a with m, X = b with n:
  //   struct peri_X_line;  peri_X_line peri_X_line_of(PERI_INDEX batch, PERI_INDEX m)    any m
  //   struct peri_X_step;  peri_X_step peri_X_step_of(PERI_INDEX batch, PERI_INDEX k)    any k
  //   wide:  const unsigned short* peri_X_from(line, step, bool* there)       the eight; a multiple of 16 bytes even
  //                                                                           if out of range (!*there)
  //   else:  unsigned short peri_X(line, step)                                one element; 0 out of range
  //   made:  peri_16 peri_a_made(line, step, const peri_16& read)             the eight of a; 0 out of range
  // PERI_WHOLE_N, PERI_WHOLE_K: 1 if no n or k is out of range.
  //   peri_sum_8(float* v, PERI_INDEX batch, m, n), float peri_sum(float v, batch, m, n)      bias and factors
  //   and where PERI_COLUMN is 1:  peri_column_8(float* c, batch, n), float peri_scaled(float v)     with v + c instead
  //   bytes: struct peri_early; peri_early_8(peri_early*, batch, n)     what columns n to n + 7 have of their own
  //          peri_sum_8(float* v, const peri_early&, int row, batch, m, n), int peri_sum(float v, int row, batch, m, n)
  //   PERI_INDEX peri_place(PERI_INDEX batch, PERI_INDEX m, PERI_INDEX n)     of the result
  // and those of the chain after it, eight adjacent elements at a time.
  std::string functions;
  std::vector<PackedWeight> packed = {};  // see LaunchInstance
  // A kernel of the text that runs first and writes this many bytes of the workspace, with this many threads; only for
  // a depth in one part.
  std::string first = {};
  int64_t first_threads = 0;
  size_t first_bytes = 0;
  std::vector<int64_t> usual_m = {};  // the values of m for which configurations are offered, for any m
  // For estimates: bytes that memory delivers per element of a, fewer than 2 where an element is read several times;
  // bytes of operands that the chain reads per element of the result.
  double a_bytes = 2, chain_bytes = 0;
};

// Tile sizes and split of the depth as texts of configurations, "tm=64 tn=64 warps=4 split=1", the best estimate for
// the sizes on such a GPU first, only those that fit into shared memory. The same set for each m: the `most` best ones
// for each of `usual_m`, and some more with clusters where the GPU has them.
struct TileConfig {
  std::string text;
  double guess_ms = 0;
};
std::vector<TileConfig> tile_configs(const TiledProduct& product, const GpuLimits& gpu, size_t most);
// `offer` with each of them.
std::vector<Offer> tile_offers(const Offer& offer, const TiledProduct& product, const GpuLimits& gpu, size_t most);
// "tk" and "stages".
const std::vector<Tunable>& tile_tunables();
// "cluster=1": the parts of a tile are a cluster of blocks, which reduces them in the same launch; without support for
// clusters a separate launch reduces them, as without the setting. `tk` and `stages` 0: derived. Errors: kInvalid for a
// configuration that is not one of those.
Result<std::unique_ptr<Instance>> tile_instance(const TiledProduct& product, std::string_view config, int64_t tk,
                                                int64_t stages, int64_t most_elements, const GpuLimits& gpu,
                                                Signature* signature);

}  // namespace peri::kernels::cuda
