// The memory that an engine needs on each device of its program, known before any of it is allocated.
#pragma once

#include "plan/program.hpp"

namespace peri::plan {

// In bytes. Workspaces are those measured with the steps, or known from the choices; others are not included.
struct DeviceMemory {
  int64_t weights = 0;  // each block of the file once
  int64_t arena = 0;
  int64_t workspaces = 0;  // the part of the arena that exists for workspaces only
  int64_t ports = 0;       // inputs and states; outputs are in the arena
  int64_t total() const { return weights + arena + ports; }
};

// By device of the program, the host first: what it allocates; for the host without weights, which are mapped. `plan`
// is of one binding; sizes that depend on data are not included.
std::vector<DeviceMemory> device_memory(const Program& program, const ArenaPlan& plan);
// "122.1 MiB: weights 97.5 MiB, arena 24.1 MiB (8.0 MiB for workspaces), inputs and states 0.6 MiB".
std::string memory_text(const DeviceMemory& memory);
// The same for each device at these sizes, with these bytes of workspace per step (none: unknown).
Result<std::vector<DeviceMemory>> device_memory(const Program& program, const DimBinding& dims,
                                                std::vector<int64_t> workspaces);
// "cuda: 122.1 MiB: weights ..." for each device except the host; none where the sizes do not bind all dimensions.
std::vector<std::string> memory_lines(const Program& program, const DimBinding& dims,
                                      std::vector<int64_t> workspaces = {});

}  // namespace peri::plan
