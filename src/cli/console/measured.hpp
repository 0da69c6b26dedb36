// peri explain --measured: measured times of the steps of an engine that runs on a device.
#pragma once

#include "cli/entry.hpp"

namespace peri::cli {

// Runs the engine, or what a model is built to, and times graphs of its first steps in turn: a step's time is the
// difference of neighbours. kRefused where no step runs on a device.
Result<Outcome> explain_measured(const Arguments& arguments);

}  // namespace peri::cli
