// A worker process as seen by the server: its start, socket and region, and how it ended.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/file.hpp"

namespace peri::serve {

struct WorkerProcess {
  pid_t pid = -1;
  Fd socket;
  Fd ended;  // readable when the process has ended
};

// Starts `program arguments` with only the standard descriptors and those that worker/host.hpp names. It does not
// receive signals from a terminal. Errors: kIo.
Result<WorkerProcess> start_process(const std::string& program, const std::vector<std::string>& arguments, int memory);
// Waits for a process that has ended or is ending. Returns "died of SIGSEGV" or "ended with status 1"; `by_signal`
// receives which.
std::string bury(WorkerProcess* process, bool* by_signal = nullptr);

}  // namespace peri::serve
