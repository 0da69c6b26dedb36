// A worker process from the server's side: started with its ends of a socket and a region, and how it ended.
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

// Starts `program arguments` with the descriptors that worker/host.hpp names and no other but the standard ones, and
// without signals that people send to a terminal.
Result<WorkerProcess> start_process(const std::string& program, const std::vector<std::string>& arguments, int memory);
// REQUIRES: it has ended, or will. "died of SIGSEGV", "ended with status 1"; and which of both.
std::string bury(WorkerProcess* process, bool* by_signal = nullptr);

}  // namespace peri::serve
