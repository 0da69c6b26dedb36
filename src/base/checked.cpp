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
    PERI_ASSIGN(n, checked_mul(n, d == 0 ? 1 : d, "number of elements"));
  }
  return zero ? int64_t{0} : n;
}

}  // namespace peri
