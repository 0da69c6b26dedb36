// Linux provides the path of the running program's file as a link in /proc.
#include "base/this_program.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/clock.hpp"

namespace peri {

namespace {
constexpr const char* kSelf = "/proc/self/exe";
}  // namespace

Result<std::string> program_path() {
  std::error_code failed;
  const std::filesystem::path path = std::filesystem::read_symlink(kSelf, failed);
  if (failed)
    return io_error("cannot find the running program: %s", failed.message().c_str())
        .in_file(kSelf)
        .advise("mount /proc: it is not seen here");
  return path.string();
}

std::string file_identity(const std::string& path) {
  struct stat file = {};
  if (stat(path.c_str(), &file) == 0)
    return format("%lld %lld %lld", static_cast<long long>(file.st_size), static_cast<long long>(file.st_mtim.tv_sec),
                  static_cast<long long>(file.st_mtim.tv_nsec));
  return format("process %d at %lld", static_cast<int>(getpid()), static_cast<long long>(now_ns()));
}

const std::string& program_identity() {
  static const std::string kIdentity = file_identity(kSelf);
  return kIdentity;
}

}  // namespace peri
