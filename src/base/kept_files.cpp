// A file is held by a shared lock (flock), which the system releases when the process that has it ends for any reason.
#include "base/kept_files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <vector>

namespace peri {

namespace {
namespace fs = std::filesystem;

struct Listed {
  std::string path;
  uint64_t bytes = 0;
  fs::file_time_type used;
};

std::vector<Listed> list(const KeptKind& kind, const std::string& folder) {
  std::vector<Listed> out;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed); !failed && at != fs::directory_iterator(); at.increment(failed)) {
    const std::string name = at->path().filename().string();
    std::error_code gone;  // another process trims too
    if (name.size() != kind.digits + kind.suffix.size() || !name.ends_with(kind.suffix) ||
        at->symlink_status(gone).type() != fs::file_type::regular)
      continue;
    uintmax_t bytes = at->file_size(gone);
    const fs::file_time_type used = gone ? fs::file_time_type() : at->last_write_time(gone);
    if (gone) continue;
    const std::string path = at->path().string();
    if (!kind.beside.empty())
      if (const uintmax_t more = fs::file_size(path + std::string(kind.beside), gone); !gone) bytes += more;
    out.push_back({path, bytes, used});
  }
  return out;
}

Fd open_listed(const std::string& path) {
  return Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

// The lock is tried and, where it is had, kept with `fd`.
bool is_held(const Fd& fd) { return fd.valid() && flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; }

// Whether it went. Errors: kIo for one that nobody holds and that stays.
Result<bool> remove_unheld(const KeptKind& kind, const std::string& path) {
  const Fd fd = open_listed(path);  // locked until the name is gone: who waits for it finds that it is
  if (is_held(fd)) return false;
  if (unlink(path.c_str()) != 0) {
    if (errno == ENOENT) return false;  // another process trims too
    return os_error("delete", path);
  }
  if (!kind.beside.empty()) (void)unlink((path + std::string(kind.beside)).c_str());
  return true;
}
}  // namespace

const KeptKind kPackedWeights = {"packed", "packed weights", ".packed", 32, Knob::kPackedCacheMib, 4096};
const KeptKind kServedEngines = {"serve", "engines of peri serve", ".engine", 16, Knob::kEngineCacheMib, 8192,
                                 ".proof"};
const KeptKind kMachineCode = {"cubin", "kernels for GPUs", ".cubin", 32, Knob::kCodeCacheMib, 512};

std::span<const KeptKind* const> kept_kinds() {
  static constexpr const KeptKind* kAll[] = {&kPackedWeights, &kServedEngines, &kMachineCode};
  return kAll;
}

std::string kept_folder(const KeptKind& kind, const std::string& cache) {
  return cache + "/" + std::string(kind.folder);
}

uint64_t kept_limit_bytes(const KeptKind& kind) {
  uint64_t mib = kind.default_mib;
  const auto given = knob(kind.limit);
  if (given) std::from_chars(given->data(), given->data() + given->size(), mib);
  return std::min<uint64_t>(mib, uint64_t{1} << 30) << 20;
}

void trim_kept(const KeptKind& kind, const std::string& folder, uint64_t limit_bytes) {
  std::vector<Listed> files = list(kind, folder);
  uint64_t sum = 0;
  for (const Listed& f : files) sum += f.bytes;
  std::sort(files.begin(), files.end(), [](const Listed& a, const Listed& b) { return a.used < b.used; });
  for (const Listed& f : files) {
    if (sum <= limit_bytes) return;
    const Result<bool> gone = remove_unheld(kind, f.path);
    if (gone.ok() && *gone) sum -= f.bytes;
  }
}

Fd hold_kept(const std::string& path) {
  Fd fd = open_listed(path);
  if (!fd.valid()) return fd;
  while (flock(fd.get(), LOCK_SH) != 0 && errno == EINTR) continue;
  (void)futimens(fd.get(), nullptr);
  return fd;
}

KeptFacts kept_facts(const KeptKind& kind, const std::string& cache) {
  KeptFacts f;
  if (cache.empty()) return f;
  for (const Listed& k : list(kind, kept_folder(kind, cache))) {
    ++f.files;
    f.bytes += static_cast<int64_t>(k.bytes);
    f.held += is_held(open_listed(k.path));
  }
  return f;
}

Result<int64_t> clear_kept(const KeptKind& kind, const std::string& cache) {
  int64_t bytes = 0;
  if (cache.empty()) return bytes;
  const std::string folder = kept_folder(kind, cache);
  for (const Listed& k : list(kind, folder)) {
    PERI_ASSIGN(const bool gone, remove_unheld(kind, k.path));
    if (gone) bytes += static_cast<int64_t>(k.bytes);
  }
  (void)rmdir(folder.c_str());
  return bytes;
}

}  // namespace peri
