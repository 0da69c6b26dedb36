// The pattern of the guards and its check.
#include "tune/guarded.hpp"

#include <array>
#include <cstring>

namespace peri::tune {

namespace {
// 16 bits that begin a NaN in every float type of 8 to 64 bits, and are not what poison() writes.
constexpr unsigned char kLow = 0xf5, kHigh = 0xff;

using Pattern = std::array<std::byte, Guarded::kGuardBytes + 1>;  // from an even or an odd address on
const Pattern& pattern() {
  static const Pattern kPattern = [] {
    Pattern p;
    for (size_t k = 0; k < p.size(); ++k) p[k] = std::byte{k % 2 == 0 ? kLow : kHigh};
    return p;
  }();
  return kPattern;
}
}  // namespace

Result<Guarded> Guarded::make(size_t bytes) {
  Guarded g;
  g.bytes_ = bytes;
  PERI_ASSIGN(g.memory_, Tensor::zeros(DType::kU8, {static_cast<int64_t>(bytes + 2 * kGuardBytes)}));
  std::memcpy(g.memory_.mutable_data(), pattern().data(), kGuardBytes);
  std::memcpy(g.data() + bytes, pattern().data() + bytes % 2, kGuardBytes);
  return g;
}

void Guarded::poison() {
  if (bytes_ > 0) std::memset(data(), 0xff, bytes_);
}

std::string_view Guarded::written() const {
  if (std::memcmp(memory_.bytes().data(), pattern().data(), kGuardBytes) != 0) return "before the start of";
  if (std::memcmp(data() + bytes_, pattern().data() + bytes_ % 2, kGuardBytes) != 0) return "past the end of";
  return "";
}

}  // namespace peri::tune
