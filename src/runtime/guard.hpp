// Guard bytes around writable memory: they change if something is written there, and are NaN in every float type if
// they are read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace peri::runtime {

constexpr int64_t kGuardBytes = 4096;  // at least, on each side

void write_guard(std::byte* from, std::byte* to);
// The first byte that differs from what write_guard() wrote; `to`: none.
const std::byte* damaged(const std::byte* from, const std::byte* to);

}  // namespace peri::runtime
