// What a run of a configuration needs at a problem's sizes, and how its work is divided: values of planning, known
// before anything is packed, compiled or allocated.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace peri {
class JsonWriter;
}  // namespace peri

namespace peri::kernels {

// The shape of a launch on a GPU. Registers are known only once a text is compiled.
struct Grid {
  std::string entry;                          // the name of its function
  std::array<int64_t, 3> blocks = {1, 1, 1};  // by axis
  int64_t threads = 0;                        // of a block
  int64_t shared_bytes = 0;                   // dynamic, of a block
  int64_t cluster = 1;                        // adjacent blocks that read each other's shared memory
  bool operator==(const Grid&) const = default;
};

struct Needs {
  size_t workspace = 0;             // bytes, shared by all tasks or launches of a run
  size_t scratch = 0;               // bytes for each thread
  std::vector<int64_t> tasks = {};  // of each phase, on the CPU
  std::vector<Grid> launches = {};  // one after the other, on a GPU
  bool operator==(const Needs&) const = default;
};
// One phase of tasks.
inline Needs needs_of_tasks(int64_t tasks, size_t scratch = 0) { return {0, scratch, {tasks}, {}}; }

// "64 tasks; 12.0 KiB for each thread"; "3 phases of 198 tasks in all; 1.5 MiB of workspace"; "1 launch of 264 blocks
// by 128 threads, each with 48.0 KiB of shared memory".
std::string needs_text(const Needs& needs);
// {"workspace_bytes": 0, "scratch_bytes": 12288, "phases": 1, "tasks": [64], "launches": [{"entry": "peri_gemm",
// "blocks": [8, 1, 1], "threads": 256, "shared_bytes": 0, "cluster": 1}]}. `tasks` holds the first 16 phases.
void write_needs(JsonWriter& w, const Needs& needs);

}  // namespace peri::kernels
