// Questions about names of files and folders that are asked in many places.
#pragma once

#include <string>
#include <string_view>

namespace peri {

// The folder that a file of this name stands in: "." where the name has none.
std::string folder_of(const std::string& file);
// Whether something has this name in the folder, a symlink that leads nowhere too.
bool stands_in(const std::string& folder, std::string_view name);

}  // namespace peri
