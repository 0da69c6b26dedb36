// Queries about names of files and folders.
#pragma once

#include <string>
#include <string_view>

namespace peri {

// The folder part of a file name: "." where the name has none.
std::string folder_of(const std::string& file);
// Whether the folder has an entry of this name, dangling symlinks included.
bool stands_in(const std::string& folder, std::string_view name);

}  // namespace peri
