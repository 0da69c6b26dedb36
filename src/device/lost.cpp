// Kept for the whole process, which has to end, and never destroyed, since a worker's detached threads read and write
// it until the process ends.
#include "device/lost.hpp"

#include <atomic>
#include <memory>

namespace peri::device {

namespace {
constinit std::atomic<const Error*> first{nullptr};
}  // namespace

std::optional<Error> lost_device() {
  const Error* const error = first.load(std::memory_order_acquire);
  return error ? std::optional<Error>(*error) : std::nullopt;
}

void note_lost_device(const Error& error) {
  if (first.load(std::memory_order_acquire)) return;
  auto mine = std::make_unique<const Error>(error);
  const Error* none = nullptr;
  if (first.compare_exchange_strong(none, mine.get(), std::memory_order_acq_rel)) (void)mine.release();
}

}  // namespace peri::device
