// A summary of a build in a few lines: the choices, what was rejected and why, how it was verified, what was known
// before, and the files written.
#pragma once

#include "build/request.hpp"
#include "cli/console/page.hpp"

namespace peri::cli {

// Lines for people and members of an open object.
void show_build(const Page& page, JsonWriter& w, const build::Made& made, const std::string& engine);

}  // namespace peri::cli
