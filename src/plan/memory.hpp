// What an engine takes on each device of its program, before anything of it is allocated.
#pragma once

#include "plan/program.hpp"

namespace peri::plan {

// In bytes. Workspaces are those that steps were measured with, or are known to need; others come on top.
struct DeviceMemory {
  int64_t weights = 0;  // each block of the file once
  int64_t arena = 0;
  int64_t workspaces = 0;  // what the arena is larger for them
  int64_t ports = 0;       // inputs and states; outputs lie in the arena
  int64_t total() const { return weights + arena + ports; }
};

// By device of the program, the host's first: what it allocates, so no weights, which are mapped. `plan`: of one
// binding; what hangs on data is left out.
std::vector<DeviceMemory> device_memory(const Program& program, const ArenaPlan& plan);
// "122.1 MiB: weights 97.5 MiB, arena 24.1 MiB (8.0 MiB for workspaces), inputs and states 0.6 MiB".
std::string memory_text(const DeviceMemory& memory);
// The same of each device at these sizes, with so many bytes of workspace a step (none: nothing is known of them).
Result<std::vector<DeviceMemory>> device_memory(const Program& program, const DimBinding& dims,
                                                std::vector<int64_t> workspaces);
// "cuda: 122.1 MiB: weights ..." for each device but the host; none where the sizes do not bind all.
std::vector<std::string> memory_lines(const Program& program, const DimBinding& dims,
                                      std::vector<int64_t> workspaces = {});

}  // namespace peri::plan
