// --profile FILE: flags of a command from a YAML or JSON file; flags on the command line override them.
#pragma once

#include "cli/entry.hpp"

namespace peri::cli {

// The arguments with those of --profile's file beside them; without that flag as they are. Errors name file, line and
// what is known there.
Result<Arguments> with_profile(const Arguments& arguments, std::span<const Flag> flags);
// The file's text: a flat map of names of flags, without their hyphens, to values or lists of them.
Result<Arguments> parse_profile(std::string_view text, std::span<const Flag> flags);

}  // namespace peri::cli
