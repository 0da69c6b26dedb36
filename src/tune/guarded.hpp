// Memory that detects out-of-bounds writes, and whose surroundings contain no number that could pass as a result when
// read.
#pragma once

#include "base/tensor.hpp"
#include "runtime/guard.hpp"

namespace peri::tune {

class Guarded {
 public:
  static constexpr size_t kGuardBytes = static_cast<size_t>(runtime::kGuardBytes);
  // Aligned to 64 bytes; zero.
  static Result<Guarded> make(size_t bytes);
  std::byte* data() { return memory_.mutable_data() + kGuardBytes; }
  const std::byte* data() const { return memory_.bytes().data() + kGuardBytes; }
  size_t bytes() const { return bytes_; }
  // "" while both guards are intact; else the side on which something was written: "before the start of".
  std::string_view written() const;

 private:
  Tensor memory_;
  size_t bytes_ = 0;
};

}  // namespace peri::tune
