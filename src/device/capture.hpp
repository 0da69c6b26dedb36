// Work as a capture, taken again where other work of the process spoilt it.
#pragma once

#include <functional>
#include <memory>

#include "device/device.hpp"

namespace peri::device {

// What `work` enqueues on the stream and on streams that join it. A capture is spoilt by any thread of the process that
// waits for the whole device meanwhile, as a library may when it loads code; nothing ran then, so `work` is called
// again, at most kMaxCaptures times in all. Errors: of the last try. A thread that waited every 0.3 ms spoilt 43
// captures of 200 (benchmarks/results/2026-11-28_gpu_whole.md): eight in a row are no chance.
constexpr int kMaxCaptures = 8;
Result<std::unique_ptr<Captured>> capture(Stream& stream, const std::function<Status()>& work);

}  // namespace peri::device
