// A summary of a build in a few lines: choices, rejected candidates with reasons, verification, reused results, and
// written files.
#pragma once

#include "build/request.hpp"
#include "cli/console/page.hpp"

namespace peri::cli {

// Prints lines and writes members of the open object.
void show_build(const Page& page, JsonWriter& w, const build::Made& made, const std::string& engine);

}  // namespace peri::cli
