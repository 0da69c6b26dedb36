// Kept for the whole process, as that is what has to end.
#include "device/lost.hpp"

#include <atomic>
#include <mutex>

namespace peri::device {

namespace {
std::atomic<bool> is_lost{false};
std::mutex lock;  // of the error
std::optional<Error> first;
}  // namespace

std::optional<Error> lost_device() {
  if (!is_lost.load(std::memory_order_acquire)) return std::nullopt;
  const std::lock_guard<std::mutex> hold(lock);
  return first;
}

void note_lost_device(const Error& error) {
  const std::lock_guard<std::mutex> hold(lock);
  if (!first) first = error;
  is_lost.store(true, std::memory_order_release);
}

}  // namespace peri::device
