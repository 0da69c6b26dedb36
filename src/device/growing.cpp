// The limit of what a loop carries.
#include "device/growing.hpp"

#include <algorithm>

#include "device/memory_info.hpp"

namespace peri::device {

namespace {
constexpr int64_t kMuch =
    int64_t{64} << 20;  // less than any machine lacks: asking the system takes longer than small loops
}

Status Growing::allows(int64_t before, int64_t now, int64_t kept) {
  // What doubles adds twice as much as it added before, and little is right of what grows by the same each time.
  const int64_t next = now + (now > before ? 2 * (now - before) : 0);
  const int64_t all = kept + now + next;
  if (all > kMuch && !asked_) {
    asked_ = true;
    if (const int64_t available = host_memory().available_bytes; available > 0)
      most_ = std::min(most_, std::max(available / 2, kMuch));
  }
  if (now <= before || all <= most_) return Ok{};
  return Error(ErrorKind::kMemory, "the carried values of a loop grow beyond the memory that they may take")
      .expecting(format("at most %lld bytes of them, before and behind an iteration", static_cast<long long>(most_)))
      .but_found(format("%lld bytes behind an iteration, %lld before it", static_cast<long long>(now),
                        static_cast<long long>(before)))
      .advise("lower --max-iterations, or check the condition that ends the loop");
}

}  // namespace peri::device
