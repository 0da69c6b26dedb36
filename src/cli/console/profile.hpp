// --profile FILE: flags of a command from a YAML or JSON file; flags on the command line override them.
#pragma once

#include "cli/entry.hpp"

namespace peri::cli {

// The arguments completed by the file of --profile; unchanged without that flag. Errors name file, line and known
// flags.
Result<Arguments> with_profile(const Arguments& arguments, std::span<const Flag> flags);
// The file's content: a flat map from names of flags, without hyphens, to values or lists.
Result<Arguments> parse_profile(std::string_view text, std::span<const Flag> flags);

}  // namespace peri::cli
