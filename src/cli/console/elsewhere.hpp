// Flags of other programs that do the work of peri.
#pragma once

#include <span>
#include <string_view>

namespace peri::cli {

// What to do here in place of these flags; `words` are separated by spaces, in hyphens where theirs are camelCase.
// `command`: the only one that they are for, "": any.
struct OtherFlags {
  std::string_view words, advice, command = "";
};
std::span<const OtherFlags> flags_of_others();

}  // namespace peri::cli
