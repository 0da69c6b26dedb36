// The folder itself is locked (flock): the system releases the lock when the last process that has it ends for any
// reason.
#include "base/temporary_folder.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

namespace peri {

namespace {
namespace fs = std::filesystem;
constexpr std::string_view kRandom = "XXXXXX";

Fd open_folder(const std::string& path) {
  return Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool has_name(const Fd& fd, const std::string& path) {
  struct stat own, named;
  return ::fstat(fd.get(), &own) == 0 && ::lstat(path.c_str(), &named) == 0 && own.st_ino == named.st_ino &&
         own.st_dev == named.st_dev;
}

bool is_ours(const Fd& fd) {
  struct stat st;
  return ::fstat(fd.get(), &st) == 0 && st.st_uid == ::geteuid();
}

// Folders that begin so and that no process has.
void remove_left_behind(const std::string& beginning) {
  const fs::path begins(beginning);
  const std::string name = begins.filename().string();
  std::error_code failed;
  for (fs::directory_iterator at(begins.parent_path(), failed); !failed && at != fs::directory_iterator();
       at.increment(failed)) {
    const std::string found = at->path().filename().string();
    if (found.size() != name.size() + kRandom.size() || !found.starts_with(name)) continue;
    const Fd fd = open_folder(at->path().string());
    std::error_code ignored;
    if (fd.valid() && is_ours(fd) && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) fs::remove_all(at->path(), ignored);
  }
}
}  // namespace

Result<TemporaryFolder> TemporaryFolder::create(std::string_view name) {
  std::error_code failed;
  const fs::path temporary = fs::temp_directory_path(failed);
  const std::string beginning = (failed ? fs::path("/tmp") : temporary) / ("peri-" + std::string(name) + "-");
  remove_left_behind(beginning);
  while (true) {
    std::string path = beginning + std::string(kRandom);
    if (!::mkdtemp(path.data())) return os_error("make a folder", path);
    Fd lock = open_folder(path);
    while (lock.valid() && ::flock(lock.get(), LOCK_EX) != 0 && errno == EINTR) continue;
    if (!lock.valid() && errno != ENOENT) {
      const Error why = os_error("open the folder", path);
      (void)::rmdir(path.c_str());
      return why;
    }
    // Another process may have found it before it was locked: then it is gone.
    if (lock.valid() && has_name(lock, path)) return TemporaryFolder(std::move(path), std::move(lock));
  }
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace peri
