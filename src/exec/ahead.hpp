// Opens libraries that an engine's steps need while the rest of it is loaded.
#pragma once

#include <memory>

#include "plan/program.hpp"

namespace peri::exec {

// Begins to open the libraries that steps of the program were chosen with, on a thread of its own: who needs one first
// waits for what is left of it, and is told why one cannot be opened. What is returned waits for the thread when it
// goes; null: the program needs none.
std::shared_ptr<const void> open_ahead(const plan::Program& program);

}  // namespace peri::exec
