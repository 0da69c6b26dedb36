// Moving of elements between row-major order and a layout.
#include "exec/region/layouts.hpp"

#include <algorithm>
#include <cstring>

namespace peri::exec {

std::vector<int64_t> physical_dims(const std::vector<int64_t>& dims, const ir::Layout& layout) {
  std::vector<int64_t> p;
  for (size_t k = 0; k < dims.size(); ++k) {
    const size_t axis = layout.order.empty() ? k : layout.order[k];
    p.push_back(static_cast<int>(axis) == layout.block_axis ? (dims[axis] + layout.block - 1) / layout.block
                                                            : dims[axis]);
  }
  if (layout.block_axis >= 0) p.push_back(layout.block);
  return p;
}

namespace {
// Calls f(logical, physical) for every element, in logical order; rows of the last axis are one inner loop.
template <class F>
void for_each_element(const std::vector<int64_t>& dims, const ir::Layout& layout, F f) {
  const std::vector<int64_t> p = physical_dims(dims, layout);
  const size_t rank = dims.size();
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  if (n == 0) return;
  // Physical distance of a step along each logical axis; a blocked axis has two.
  std::vector<int64_t> step(rank, 0);
  int64_t at = layout.block_axis >= 0 ? layout.block : 1;
  for (size_t k = rank; k-- > 0;) {
    step[layout.order.empty() ? k : layout.order[k]] = at;
    at *= p[k];
  }
  auto offset = [&](size_t axis, int64_t c) {
    return static_cast<int>(axis) == layout.block_axis ? c / layout.block * step[axis] + c % layout.block
                                                       : c * step[axis];
  };
  if (rank == 0) return f(0, 0);
  const int64_t inner = dims[rank - 1];
  std::vector<int64_t> c(rank, 0);
  for (int64_t row = 0; row < n / inner; ++row) {
    int64_t base = 0;
    for (size_t axis = 0; axis + 1 < rank; ++axis) base += offset(axis, c[axis]);
    for (int64_t k = 0; k < inner; ++k) f(row * inner + k, base + offset(rank - 1, k));
    for (size_t axis = rank - 1; axis-- > 0;) {
      if (++c[axis] < dims[axis]) break;
      c[axis] = 0;
    }
  }
}

template <size_t kBytes>
void move_elements(const std::vector<int64_t>& dims, const ir::Layout& layout, bool to_physical, const std::byte* from,
                   std::byte* to) {
  for_each_element(dims, layout, [&](int64_t logical, int64_t physical) {
    const int64_t a = to_physical ? logical : physical, b = to_physical ? physical : logical;
    std::memcpy(to + static_cast<size_t>(b) * kBytes, from + static_cast<size_t>(a) * kBytes, kBytes);
  });
}

Status move_by_size(int size, const std::vector<int64_t>& dims, const ir::Layout& layout, bool to_physical,
                    const std::byte* from, std::byte* to) {
  switch (size) {
    case 1: move_elements<1>(dims, layout, to_physical, from, to); break;
    case 2: move_elements<2>(dims, layout, to_physical, from, to); break;
    case 4: move_elements<4>(dims, layout, to_physical, from, to); break;
    case 8: move_elements<8>(dims, layout, to_physical, from, to); break;
    default: return internal_error("no layouts for elements of %d bytes", size);
  }
  return Ok{};
}
}  // namespace

Result<Tensor> to_layout(const Tensor& t, const ir::Layout& layout) {
  if (layout.row_major()) return t;
  PERI_ASSIGN(Tensor out, Tensor::zeros(t.dtype(), physical_dims(t.dims(), layout)));
  PERI_TRY(move_by_size(dtype_size(t.dtype()), t.dims(), layout, true, t.bytes().data(), out.mutable_data()));
  return out;
}

Result<Tensor> from_layout(const Tensor& t, const ir::Layout& layout, const std::vector<int64_t>& dims) {
  if (layout.row_major()) return t.reshaped(dims);
  PERI_ASSIGN(Tensor out, Tensor::zeros(t.dtype(), dims));
  PERI_TRY(move_by_size(dtype_size(t.dtype()), dims, layout, false, t.bytes().data(), out.mutable_data()));
  return out;
}

std::optional<int64_t> first_difference(const Tensor& a, const Tensor& b) {
  if (a.dtype() == DType::kString) {
    const auto &x = a.string_values(), &y = b.string_values();
    const auto at = std::mismatch(x.begin(), x.end(), y.begin()).first;
    return at == x.end() ? std::nullopt : std::optional(at - x.begin());
  }
  const size_t bytes = a.bytes().size();
  if (bytes == 0 || std::memcmp(a.data(), b.data(), bytes) == 0) return std::nullopt;
  const int bits = dtype_bits(a.dtype());
  const auto begin = a.bytes().begin(), end = a.bytes().end();
  int64_t k = (std::mismatch(begin, end, b.bytes().begin()).first - begin) * 8 / bits;
  if (bits % 8 == 0) return k;
  while (k < a.numel() && a.i64(k) == b.i64(k)) ++k;
  return k < a.numel() ? std::optional(k) : std::nullopt;
}

}  // namespace peri::exec
