// Byte-wise views and transposes of constants.
#include "passes/rewrite/move_constant.hpp"

#include <algorithm>

#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {

// Axes that stay neighbours in order become one; axes of one element go.
void merge_axes(std::vector<int64_t>* dims, std::vector<int64_t>* perm) {
  std::vector<std::vector<int64_t>> groups;  // in output order: input axes
  for (int64_t axis : *perm) {
    if ((*dims)[static_cast<size_t>(axis)] == 1) continue;
    auto follows = [&](int64_t last) {
      for (int64_t k = last + 1; k < axis; ++k)
        if ((*dims)[static_cast<size_t>(k)] != 1) return false;
      return last < axis;
    };
    if (!groups.empty() && follows(groups.back().back())) {
      groups.back().push_back(axis);
    } else {
      groups.push_back({axis});
    }
  }
  std::vector<size_t> order(groups.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return groups[a][0] < groups[b][0]; });
  std::vector<int64_t> merged, moved(groups.size());
  for (size_t k = 0; k < order.size(); ++k) {
    int64_t extent = 1;
    for (int64_t axis : groups[order[k]]) extent *= (*dims)[static_cast<size_t>(axis)];
    merged.push_back(extent);
    moved[order[k]] = static_cast<int64_t>(k);
  }
  *dims = merged;
  *perm = moved;
}

// A matrix of rows x columns elements, turned in tiles that stay in the first cache.
template <class T>
void turn(const T* from, int64_t from_step, T* to, int64_t to_step, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 16;  // a cache line of floats
  for (int64_t r = 0; r < rows; r += kTile) {
    const int64_t r_end = std::min(rows, r + kTile);
    for (int64_t c = 0; c < columns; c += kTile) {
      const int64_t c_end = std::min(columns, c + kTile);
      for (int64_t j = c; j < c_end; ++j)
        for (int64_t i = r; i < r_end; ++i) to[j * to_step + i] = from[i * from_step + j];
    }
  }
}

// Output order; the two innermost loops turn the input's last axis against the output's last axis.
template <class T>
void permute(const T* from, T* to, const std::vector<int64_t>& dims, const std::vector<int64_t>& perm) {
  const size_t rank = dims.size();
  std::vector<int64_t> in_step(rank, 1), out_step(rank, 1), at(rank, 0);
  for (size_t k = rank; k-- > 1;) in_step[k - 1] = in_step[k] * dims[k];
  for (size_t k = rank; k-- > 1;) out_step[k - 1] = out_step[k] * dims[static_cast<size_t>(perm[k])];
  // The place in the output of the input's last axis, and of the output's last axis.
  const size_t column =
      static_cast<size_t>(std::find(perm.begin(), perm.end(), static_cast<int64_t>(rank) - 1) - perm.begin());
  const size_t row = rank - 1;
  const size_t row_axis = static_cast<size_t>(perm[row]);
  while (true) {
    int64_t source = 0, target = 0;
    for (size_t k = 0; k < rank; ++k) {
      source += at[k] * in_step[static_cast<size_t>(perm[k])];
      target += at[k] * out_step[k];
    }
    if (column == row) {
      std::copy_n(from + source, dims[rank - 1], to + target);
    } else {
      turn(from + source, in_step[row_axis], to + target, out_step[column], dims[row_axis], dims[rank - 1]);
    }
    size_t k = rank;
    while (k-- > 0) {
      if (k == row || k == column) continue;
      if (++at[k] < dims[static_cast<size_t>(perm[k])]) break;
      at[k] = 0;
    }
    if (k == SIZE_MAX) return;
  }
}

std::optional<std::vector<int64_t>> dims_of_output(const ir::Node& n) {
  if (n.outputs.size() != 1 || !n.out()->type.known()) return std::nullopt;
  std::vector<int64_t> dims;
  for (const Dim& d : *n.out()->type.shape) {
    if (!d.is_const()) return std::nullopt;
    dims.push_back(d.value());
  }
  return dims;
}
}  // namespace

std::optional<Tensor> transposed(const Tensor& t, const std::vector<int64_t>& perm) {
  if (t.dtype() == DType::kString || dtype_bits(t.dtype()) % 8 != 0) return std::nullopt;
  std::vector<int64_t> dims = t.dims(), moved = perm, out_dims;
  for (int64_t axis : perm) out_dims.push_back(dims[static_cast<size_t>(axis)]);
  merge_axes(&dims, &moved);
  if (is_identity(moved) || t.numel() == 0) {
    auto same = t.reshaped(out_dims);
    return same.ok() ? std::optional(*std::move(same)) : std::nullopt;
  }
  auto out = Tensor::zeros(t.dtype(), out_dims);
  if (!out.ok()) return std::nullopt;
  switch (dtype_bits(t.dtype()) / 8) {
    case 1: permute(t.as<uint8_t>().data(), out->mutable_as<uint8_t>(), dims, moved); break;
    case 2: permute(t.as<uint16_t>().data(), out->mutable_as<uint16_t>(), dims, moved); break;
    case 4: permute(t.as<uint32_t>().data(), out->mutable_as<uint32_t>(), dims, moved); break;
    case 8: permute(t.as<uint64_t>().data(), out->mutable_as<uint64_t>(), dims, moved); break;
    default: return std::nullopt;
  }
  return *std::move(out);
}

std::optional<Tensor> moved_constant(const ir::Node& node) {
  if (!node.in(0) || !node.in(0)->constant) return std::nullopt;
  const Tensor& t = *node.in(0)->constant;
  const auto dims = dims_of_output(node);
  if (!dims || t.dtype() == DType::kString) return std::nullopt;
  if (node.op == "transpose") return transposed(t, perm_of(node));
  if (!ops::is_view(node)) return std::nullopt;
  auto same = t.reshaped(*dims);
  return same.ok() ? std::optional(*std::move(same)) : std::nullopt;
}

}  // namespace peri::passes
