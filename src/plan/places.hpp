// Validity of a program's devices: the part of check_program() about where buffers are placed and steps run.
#pragma once

#include "base/result.hpp"
#include "plan/program.hpp"

namespace peri::plan {

// The host first, each other device once, with a name of [a-z0-9_:]; a body of a control step has only the host.
Status check_device_table(const Program& program, bool body);

// REQUIRES: all indexes of the program are within their ranges. Checks the device and lane of each step, the buffers
// that it may access there, and that any two steps of which one writes what the other accesses are ordered.
Status check_steps_on_devices(const Program& program);

}  // namespace peri::plan
