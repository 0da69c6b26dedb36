// Placement: converts a program of the host to one of a device. Steps move there, values that the other side reads get
// a copy step and a buffer, weights a second buffer; then each step gets a lane and the steps it waits for.
#pragma once

#include <string>
#include <vector>

#include "plan/program.hpp"

namespace peri::lower {

struct Placement {
  std::string device;     // its kind, as Program::devices names it
  std::string executor;   // the executor of the payloads there
  uint32_t lanes = 1;     // largest number of lanes used
  bool own_only = false;  // only steps with kernels of that executor move there; a region with such a kernel uses it
  // Inputs that only steps of the device read, outputs that they write, and states that only they access are on the
  // device: a session uploads and downloads them, or uses the caller's memory. Otherwise each input is followed and
  // each output preceded by a copy step, and steps that access states stay on the host.
  bool ports = false;
};

// Moves every step (own_only: of that executor) that binds no dimension, has no body, and accesses no strings. A result
// whose argument stays on the other side no longer reuses its memory. Returns, for each step of the new list, its index
// in the old one; kNoStep for a copy. REQUIRES: a program of the host alone that check_program() accepts.
constexpr size_t kNoStep = SIZE_MAX;
std::vector<size_t> place_steps(const Placement& placement, plan::Program* program);

// An order of the steps with less than half as many changes between places, where there are many; else their own order.
// Dependences are respected. Values live longer in it: an order with few changes is kept. With two places, running all
// that is ready in one before anything of the other gives the fewest changes for a given first place.
constexpr size_t kManyChanges = 16;  // fewer waits are not worth the memory; about 10 us each. Not fitted
std::vector<size_t> long_runs(const plan::Program& program);

// Sets lanes and waits of the steps of devices, from what the steps read and write: a step is put into a lane that ends
// with one that it depends on, else into the lane that was idle longest. Steps of the host wait for those of devices.
void order_steps(plan::Program* program, uint32_t lanes);

}  // namespace peri::lower
