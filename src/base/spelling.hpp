// Suggestions for misspelt flags, commands and knobs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace peri {

// The known word closest to `word` by edit distance (a swap of neighbours is one edit), if about a third of it differs
// at most; else the shortest that begins with it; else empty.
std::string nearest(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace peri
