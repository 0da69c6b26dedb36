// Where steps run: converts a program of the host to one of a device. Steps move there, values that the other side
// reads get a copy step and a buffer, weights a second buffer; then each step gets a lane and the steps it waits for.
#pragma once

#include <string>
#include <vector>

#include "plan/program.hpp"

namespace peri::lower {

struct Placement {
  std::string device;    // its kind, as Program::devices names it
  std::string executor;  // that runs the payloads there
  uint32_t lanes = 1;    // most that are used
  bool own_only =
      false;  // only steps whose kernels are that executor's go there; a region that has such a kernel takes it
  // Inputs that only steps of the device read, outputs that they write, and states that they alone touch lie there: a
  // session brings them, or takes them where the caller has them. Else a copy step stands behind each input and in
  // front of each output, and steps that touch states stay.
  bool ports = false;
};

// Moves every step (own_only: of that executor) that binds no dimension, has no body, and touches no strings. A result
// whose argument stays on the other side no longer takes its memory. Returns, for each step of the new list, its index
// in the old one; kNoStep for a copy. REQUIRES: a program of the host alone that check_program() takes.
constexpr size_t kNoStep = SIZE_MAX;
std::vector<size_t> place_steps(const Placement& placement, plan::Program* program);

// An order of the steps that changes between places less than half as often, where they change often; else their own.
// Each step stands behind those that it depends on. Values live longer for it: those of a few changes are left as they
// are. Of two places, all that is ready in one before anything of the other gives the fewest changes for a first place.
constexpr size_t kManyChanges = 16;  // fewer waits are not worth the memory; about 10 us each. Not fitted
std::vector<size_t> long_runs(const plan::Program& program);

// Lanes and waits for the steps of devices, from what the steps read and write: a step goes into a lane that ends with
// one that it depends on, else into the one that was idle for longest. Steps of the host wait for those of devices.
void order_steps(plan::Program* program, uint32_t lanes);

}  // namespace peri::lower
