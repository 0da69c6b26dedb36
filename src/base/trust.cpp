// Checks of owners and modes.
#include "base/trust.hpp"

#include <sys/stat.h>
#include <unistd.h>

namespace peri {

namespace {
std::string distrust(const struct stat& state, mode_t writers) {
  if (state.st_uid != ::geteuid()) return format("it belongs to user %u", static_cast<unsigned>(state.st_uid));
  if (state.st_mode & writers)
    return format("others may write to it (mode %03o)", static_cast<unsigned>(state.st_mode & 0777));
  return "";
}
}  // namespace

std::string distrust(const Fd& file) {
  struct stat state;
  return ::fstat(file.get(), &state) == 0 ? distrust(state, S_IWGRP | S_IWOTH) : "its owner is not known";
}

std::string distrust_file(const std::string& path) {
  struct stat state;
  if (::stat(path.c_str(), &state) != 0) return "";
  return S_ISREG(state.st_mode) ? distrust(state, S_IWGRP | S_IWOTH) : "it is not a regular file";
}

std::string distrust_folder(const std::string& path) {
  struct stat state;
  if (::stat(path.c_str(), &state) != 0) return "";
  if (!S_ISDIR(state.st_mode)) return "it is not a folder";
  const bool sticky = state.st_mode & S_ISVTX;
  if (sticky && state.st_uid == 0) return "";  // /tmp
  return distrust(state, sticky ? 0 : S_IWOTH);
}

void make_own_folders(const std::string& path) {
  for (size_t at = 1; at <= path.size(); ++at)
    if (at == path.size() || path[at] == '/') ::mkdir(path.substr(0, at).c_str(), 0755);
}

}  // namespace peri
