// peri explain --measured: measured times of the steps of an engine that runs on a device.
#pragma once

#include "cli/entry.hpp"

namespace peri::cli {

// Runs an engine, or builds the model, and times captures of its first n steps in alternation: a step's time is the
// difference of consecutive n. Errors: kRefused: no step runs on a device.
Result<Outcome> explain_measured(const Arguments& arguments);

}  // namespace peri::cli
