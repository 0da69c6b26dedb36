// Loads libraries that an engine's steps need, while the rest of the engine is loaded.
#pragma once

#include <memory>

#include "plan/program.hpp"

namespace peri::exec {

// Starts to load the libraries that steps of the program were chosen with, on a separate thread: the first use of one
// waits for the rest of its loading, and gets the error if it cannot be loaded. The result joins the thread when it is
// destroyed; null: the program needs none.
std::shared_ptr<const void> open_ahead(const plan::Program& program);

}  // namespace peri::exec
