// The worker's side: loads models on order and answers requests that arrive through the shared region, until its server
// ends. One process per device, so that a crash affects only the work in progress there.
#pragma once

#include "serve/repository/repository.hpp"
#include "serve/worker/region.hpp"

namespace peri::serve {

// Descriptors of a worker when it begins.
constexpr int kWorkerSocket = 3, kWorkerMemory = 4;
// Its exit status after its device has failed for good.
constexpr int kLostDeviceStatus = 4;

// Serves until `socket` closes; then `end`, which ends the process at once with whatever it is doing, is called, from
// any thread; it does not return. `lost` is asked after each run and each load that failed: what ended its device, with
// which the worker ends too, and all under way there is told so by its server. Errors: the memory is no region of this
// version.
Status serve_as_worker(Fd socket, Fd memory, Loader loader, std::function<void(int code)> end,
                       std::function<std::optional<Error>()> lost);

}  // namespace peri::serve
