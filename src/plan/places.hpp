// What a program says of devices is sound: the part of check_program() that asks where buffers lie and steps run.
#pragma once

#include "base/result.hpp"
#include "plan/program.hpp"

namespace peri::plan {

// The host first, each other device once, under a name of [a-z0-9_:]; a body of a control step has the host alone.
Status check_device_table(const Program& program, bool body);

// REQUIRES: all indexes of the program are within their ranges. Where each step runs, what it may touch there, its
// lane; and that any two steps of which one writes what the other touches are ordered.
Status check_steps_on_devices(const Program& program);

}  // namespace peri::plan
