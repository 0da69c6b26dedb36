// Guard bytes on both sides.
#include "tune/guarded.hpp"

namespace peri::tune {

Result<Guarded> Guarded::make(size_t bytes) {
  Guarded g;
  g.bytes_ = bytes;
  PERI_ASSIGN(g.memory_, Tensor::zeros(DType::kU8, {static_cast<int64_t>(bytes + 2 * kGuardBytes)}));
  runtime::write_guard(g.memory_.mutable_data(), g.data());
  runtime::write_guard(g.data() + bytes, g.data() + bytes + kGuardBytes);
  return g;
}

std::string_view Guarded::written() const {
  const std::byte *begin = memory_.bytes().data(), *end = data() + bytes_;
  if (runtime::damaged(begin, data()) != data()) return "before the start of";
  if (runtime::damaged(end, end + kGuardBytes) != end + kGuardBytes) return "past the end of";
  return "";
}

}  // namespace peri::tune
