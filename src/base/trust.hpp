// Files that a process keeps for later ones are used only if no other user could have written them: files and folders
// of another user, or writable by others, are reported and not used.
#pragma once

#include <string>

#include "base/file.hpp"

namespace peri {

// "" if only this user can write the file; else the reason: "it belongs to user 1001", "others may write to it (mode
// 666)".
std::string distrust(const Fd& file);
std::string distrust_file(const std::string& path);  // "" for one that is not there, too
// The same for a folder. One that everyone may write to is accepted with the sticky bit (/tmp): its files are checked
// one by one.
std::string distrust_folder(const std::string& path);

// mkdir -p, writable by this user only. Existing folders are accepted.
void make_own_folders(const std::string& path);

}  // namespace peri
