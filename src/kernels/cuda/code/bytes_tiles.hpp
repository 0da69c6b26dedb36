// Products of bytes on tensor cores (tiles.hpp): what products of matrices and convolutions share.
#pragma once

#include <optional>

#include "kernels/cuda/code/bytes.hpp"
#include "kernels/cuda/code/tiles.hpp"

namespace peri::kernels::cuda {

// Activations as they come, weights that are constant, unsigned ones `turned` to signed ones.
struct ByteTiles {
  Bytes bytes;
  size_t weights = 0;             // input
  uint8_t turned = 0;             // exclusive or with each of them: 128 is taken from it
  std::optional<int64_t> a_zero;  // nothing: known in the run only
  std::vector<int64_t> b_zeros;   // of `turned` weights, by column, or one of all; empty: 0
  int64_t b_zero(int64_t column) const {
    return b_zeros.empty() ? 0 : b_zeros[b_zeros.size() == 1 ? 0 : static_cast<size_t>(column)];
  }
};
// Refuses everything else.
Result<ByteTiles> read_byte_tiles(const Problem& problem, int64_t columns);

// What one element of weights in `column` counts as.
inline int64_t signed_weight(const ByteTiles& t, const Tensor& w, int64_t k, int64_t column) {
  return w.i64(k) - t.turned - t.b_zero(column);
}

// What becomes of a column's sum, from `sums`, which gives each of the `columns` output columns the sum of its weights:
//   peri_early_one peri_early_ofSUFFIX(batch, n), int peri_sum_ofSUFFIX(v, early, row)
// `column`: text of an output's column, of `batch` and `n`. Zero points are taken from the sums here, so that what is
// out of range along m counts as that of a. `table`: Rounding::table.
struct ByteColumns {
  std::string text;
  const ir::Node* table = nullptr;
};
Result<ByteColumns> byte_column_text(const Problem& problem, const ByteTiles& tiles, int64_t columns,
                                     const std::string& column, std::function<Result<Tensor>(const Tensor&)> sums,
                                     const std::string& suffix, Signature* signature, TiledProduct* product);
// The structs that those need in front of them, and what a tile calls, behind: of peri_early_of(batch, n) and
// peri_sum_of(v, early, row, n).
std::string_view byte_structs();
std::string_view byte_ends();

// What a tile of one product ends with, and the functions of its chain.
Result<std::string> byte_end_text(const Problem& problem, const ByteTiles& tiles, int64_t columns,
                                  const std::string& column, std::function<Result<Tensor>(const Tensor&)> sums,
                                  Signature* signature, TiledProduct* product);

// Rows of activations as they lie, of PERI_K bytes each, up to the address of the first, and places of a result of
// PERI_N columns; weights by columns.
std::string byte_rows_text(const std::string& address);
// Columns, their depth side by side and filled with zeros to a multiple of 16.
Result<Tensor> packed_columns(const Tensor& w, int64_t k, int64_t n, uint8_t turned);
Result<Tensor> sums_of_columns(const Tensor& w, int64_t k, int64_t n, const ByteTiles& tiles);

}  // namespace peri::kernels::cuda
