// Implemented with std::filesystem.
#include "base/path.hpp"

#include <filesystem>

namespace peri {

std::string folder_of(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  return folder.empty() ? "." : folder.string();
}

bool stands_in(const std::string& folder, std::string_view name) {
  std::error_code unreadable;
  const std::string path = folder + "/" + std::string(name);  // an absolute name stays below the folder
  return std::filesystem::exists(std::filesystem::symlink_status(path, unreadable));
}

}  // namespace peri
