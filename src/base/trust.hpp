// What a process keeps for the next one is believed only where nobody else could have written it: files and folders of
// another user, or open to the writing of others, are named and left alone.
#pragma once

#include <string>

#include "base/file.hpp"

namespace peri {

// "" where the file is ours alone; else what is wrong: "it belongs to user 1001", "others may write to it (mode 666)".
std::string distrust(const Fd& file);
std::string distrust_file(const std::string& path);  // "" for one that is not there, too
// The same of a folder. One that all may write to is fine with the sticky bit (/tmp): what stands in it is looked at.
std::string distrust_folder(const std::string& path);

// mkdir -p, writable for us alone. Folders that are there are fine.
void make_own_folders(const std::string& path);

}  // namespace peri
