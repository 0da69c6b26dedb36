// Shapes of strided copies, and their check.
#include "kernels/match/copy_shape.hpp"

#include <algorithm>

namespace peri::kernels {

namespace {
constexpr int64_t kMaxReach = int64_t{1} << 46;  // elements of up to 16 bytes: offsets stay within int64

// Whether all places lie in [0, size).
bool inside(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides, int64_t offset, int64_t size) {
  int64_t low = offset, high = offset;
  for (size_t d = 0; d < dims.size(); ++d) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(strides[d], dims[d] - 1, &reach) || reach > kMaxReach || reach < -kMaxReach)
      return false;
    (reach < 0 ? low : high) += reach;
  }
  return low >= 0 && high < size;
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t step = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    strides[d] = step;
    step *= std::max<int64_t>(dims[d], 1);
  }
  return strides;
}

// The number of elements, or an error for negative dims and overflow.
Result<int64_t> count_of(const std::vector<int64_t>& dims) {
  int64_t count = 1, bound = 1;
  for (int64_t d : dims) {
    if (d < 0 || __builtin_mul_overflow(bound, std::max<int64_t>(d, 1), &bound) || bound > kMaxReach)
      return invalid("copy: a dim is negative or the tensor is too large");
    count *= d;
  }
  return count;
}
}  // namespace

Result<int64_t> check_copy(const CopyShape& s) {
  if (s.element_bytes != 1 && s.element_bytes != 2 && s.element_bytes != 4 && s.element_bytes != 8 &&
      s.element_bytes != 16)
    return invalid("copy: elements of %d bytes", s.element_bytes);
  if (s.from_strides.size() != s.dims.size() || s.to_strides.size() != s.dims.size())
    return invalid("copy: strides for another rank");
  PERI_ASSIGN(const int64_t count, count_of(s.dims));
  if (count == 0) return count;
  if (std::any_of(s.to_strides.begin(), s.to_strides.end(), [](int64_t v) { return v < 0; }))
    return invalid("copy: a destination stride below 0");
  if (!inside(s.dims, s.from_strides, s.from_offset, s.from_size) ||
      !inside(s.dims, s.to_strides, s.to_offset, s.to_size))
    return invalid("copy: a place lies outside its tensor");
  return count;
}

Result<CopyShape> transpose_shape(int element_bytes, const std::vector<int64_t>& dims,
                                  const std::vector<int64_t>& perm) {
  CopyShape s;
  s.element_bytes = element_bytes;
  PERI_ASSIGN(s.from_size, count_of(dims));
  s.to_size = s.from_size;
  if (perm.size() != dims.size()) return invalid("transpose: a permutation of another rank");
  const std::vector<int64_t> from = dense_strides(dims);
  std::vector<bool> seen(dims.size());
  for (int64_t p : perm) {
    if (p < 0 || static_cast<size_t>(p) >= dims.size() || seen[static_cast<size_t>(p)])
      return invalid("transpose: no permutation");
    seen[static_cast<size_t>(p)] = true;
    s.dims.push_back(dims[static_cast<size_t>(p)]);
    s.from_strides.push_back(from[static_cast<size_t>(p)]);
  }
  s.to_strides = dense_strides(s.dims);
  return s;
}

Result<CopyShape> place_shape(int element_bytes, const std::vector<int64_t>& whole, const std::vector<int64_t>& part,
                              const std::vector<int64_t>& start) {
  CopyShape s;
  s.element_bytes = element_bytes;
  PERI_ASSIGN(s.from_size, count_of(part));
  PERI_ASSIGN(s.to_size, count_of(whole));
  if (part.size() != whole.size() || start.size() != whole.size()) return invalid("placed part: another rank");
  s.dims = part;
  s.from_strides = dense_strides(part);
  s.to_strides = dense_strides(whole);
  for (size_t d = 0; d < whole.size(); ++d) {
    if (start[d] < 0 || start[d] > whole[d] || part[d] > whole[d] - start[d])
      return invalid("placed part: outside the whole");
    s.to_offset += start[d] * s.to_strides[d];
  }
  return s;
}

Result<CopyShape> slice_shape(int element_bytes, const std::vector<int64_t>& dims, const std::vector<int64_t>& start,
                              const std::vector<int64_t>& step, const std::vector<int64_t>& count) {
  CopyShape s;
  s.element_bytes = element_bytes;
  PERI_ASSIGN(s.from_size, count_of(dims));
  PERI_ASSIGN(s.to_size, count_of(count));
  if (start.size() != dims.size() || step.size() != dims.size() || count.size() != dims.size())
    return invalid("slice: another rank");
  s.dims = count;
  s.to_strides = dense_strides(count);
  const std::vector<int64_t> from = dense_strides(dims);
  for (size_t d = 0; d < dims.size(); ++d) {
    int64_t end = 0;
    if (count[d] > 0 && (start[d] < 0 || start[d] >= dims[d] || __builtin_mul_overflow(step[d], count[d] - 1, &end) ||
                         __builtin_add_overflow(end, start[d], &end) || end < 0 || end >= dims[d]))
      return invalid("slice: it leaves dim %zu", d);
    s.from_strides.push_back(count[d] > 1 ? from[d] * step[d] : 0);
    s.from_offset += count[d] > 0 ? start[d] * from[d] : 0;
  }
  return s;
}

}  // namespace peri::kernels
