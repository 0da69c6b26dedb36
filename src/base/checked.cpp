// 64-bit arithmetic on sizes that reports overflow as an error.
#include "base/dim.hpp"

namespace peri {

Result<int64_t> checked_mul(int64_t a, int64_t b, std::string_view what) {
  int64_t out;
  if (__builtin_mul_overflow(a, b, &out))
    return invalid("%.*s overflows 64 bits", static_cast<int>(what.size()), what.data());
  return out;
}
Result<int64_t> checked_add(int64_t a, int64_t b, std::string_view what) {
  int64_t out;
  if (__builtin_add_overflow(a, b, &out))
    return invalid("%.*s overflows 64 bits", static_cast<int>(what.size()), what.data());
  return out;
}
Result<int64_t> checked_numel(std::span<const int64_t> dims) {
  bool zero = false;
  int64_t n = 1;
  for (int64_t d : dims) {
    if (d < 0) return invalid("dimension %lld is negative", static_cast<long long>(d));
    zero |= d == 0;
    if (__builtin_mul_overflow(n, d == 0 ? int64_t{1} : d, &n))
      return invalid("the number of elements overflows 64 bits")
          .expecting("fewer than 2^63")
          .but_found(shape_text(Shape(dims.begin(), dims.end())))
          .advise("give smaller sizes");
  }
  return zero ? int64_t{0} : n;
}

}  // namespace peri
