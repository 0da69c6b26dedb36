// Memory in which a write outside shows: 4 KiB before and behind it hold a pattern, NaN in every float type, that a
// read outside brings into the answer.
#pragma once

#include "base/tensor.hpp"

namespace peri::tune {

class Guarded {
 public:
  static constexpr size_t kGuardBytes = 4096;
  // Aligned to 64 bytes; zero until poisoned.
  static Result<Guarded> make(size_t bytes);
  std::byte* data() { return memory_.mutable_data() + kGuardBytes; }
  const std::byte* data() const { return memory_.bytes().data() + kGuardBytes; }
  size_t bytes() const { return bytes_; }
  // NaN in every float type, -1 in integers.
  void poison();
  // "" while both guards are as they were; else on which side something was written: "before the start of".
  std::string_view written() const;

 private:
  Tensor memory_;
  size_t bytes_ = 0;
};

}  // namespace peri::tune
