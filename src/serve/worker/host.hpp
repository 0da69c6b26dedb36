// The worker process: loads models on order and answers requests from the shared region until its server ends. One
// process per device, so that a crash affects only the work in progress there.
#pragma once

#include "serve/repository/repository.hpp"
#include "serve/worker/region.hpp"

namespace peri::serve {

// Descriptors of a worker at its start.
constexpr int kWorkerSocket = 3, kWorkerMemory = 4;
// Exit status after a permanent failure of its device.
constexpr int kLostDeviceStatus = 4;

// Serves until `socket` closes; then calls `end`, on any thread, which must end the process at once and not return.
// `lost` is called after each run and each failed load: an error that it returns also ends the worker, and the server
// passes it to all requests in progress. Errors: kInvalid: the memory is not a region of this version.
Status serve_as_worker(Fd socket, Fd memory, Loader loader, std::function<void(int code)> end,
                       std::function<std::optional<Error>()> lost);

}  // namespace peri::serve
