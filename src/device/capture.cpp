// Tries of a capture.
#include "device/capture.hpp"

namespace peri::device {

Result<std::unique_ptr<Captured>> capture(Stream& stream, const std::function<Status()>& work) {
  for (int tried = 1;; ++tried) {
    PERI_TRY(stream.begin_capture());
    Status enqueued = work();
    auto captured = stream.end_capture();  // in any case
    if (enqueued.ok() && captured.ok()) return captured;
    if (stream.capture_spoilt() && tried < kMaxCaptures) continue;
    PERI_TRY(std::move(enqueued));
    return captured;
  }
}

}  // namespace peri::device
