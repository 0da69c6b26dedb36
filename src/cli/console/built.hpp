// What a build made and how it came to it, in a few lines: what was chosen from, what was rejected and why, how sure it
// is, what was known before, and where it stands.
#pragma once

#include "build/request.hpp"
#include "cli/console/page.hpp"

namespace peri::cli {

// Lines for people and members of an open object.
void show_build(const Page& page, JsonWriter& w, const build::Made& made, const std::string& engine);

}  // namespace peri::cli
