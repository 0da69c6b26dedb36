// Files are identified by their inode, or by the path that they would have.
#include "base/file_uses.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>

#include "base/file.hpp"

namespace peri {

namespace {
constexpr int kMaxLinks = 40;  // as Linux has it
constexpr const char* kLost = "it would be overwritten: give another path";

std::string identity_of(const struct stat& st) { return std::to_string(st.st_dev) + ":" + std::to_string(st.st_ino); }

// The same for two paths exactly where they are one file, "-" being standard output; none for a device that keeps
// nothing, such as /dev/null: only the terminal of standard output shows what is written.
std::optional<std::string> identity_of(const std::string& path) {
  struct stat st, output, null;
  const bool shows = ::fstat(STDOUT_FILENO, &output) == 0 && ::stat("/dev/null", &null) == 0 &&
                     !(S_ISCHR(output.st_mode) && output.st_rdev == null.st_rdev);
  if (path == "-") return shows ? std::optional(identity_of(output)) : std::nullopt;
  if (::stat(path.c_str(), &st) == 0) {
    if (S_ISCHR(st.st_mode) && !(shows && S_ISCHR(output.st_mode) && st.st_rdev == output.st_rdev)) return std::nullopt;
    return identity_of(st);
  }
  // Absolute first: of a name whose folder is not written out nothing exists, and it would stay as it is.
  std::error_code failed;
  const auto place = std::filesystem::weakly_canonical(std::filesystem::absolute(path, failed), failed);
  return "at " + (failed ? std::filesystem::path(path).lexically_normal() : place).string();
}
}  // namespace

Status check_replaces(const std::string& path, const FileKind& kind, bool force) {
  struct stat st;
  if (::stat(path.c_str(), &st) != 0) return Ok{};
  if (S_ISCHR(st.st_mode) && kind.streams) return Ok{};  // /dev/null
  if (!S_ISREG(st.st_mode))
    return invalid("%s cannot be written there", std::string(kind.name).c_str())
        .in_file(path)
        .expecting("a regular file or none")
        .but_found(S_ISDIR(st.st_mode) ? "a folder" : "a device, FIFO or socket")
        .advise(kind.dash == FileKind::Dash::kOutput ? "give the path of a file, or - for standard output"
                                                     : "give the path of a file");
  if (force || st.st_size == 0) return Ok{};
  const auto refuse = [&](const char* found) {
    return refused("will not be overwritten")
        .in_file(path)
        .expecting(std::string(kind.name) + ", an empty file or none")
        .but_found(found)
        .advise("give another path, or --force to overwrite it");
  };
  const auto fd = open_file(path);
  if (!fd.ok()) return refuse("a file that cannot be read");
  std::string head(kFileHead, '\0');  // the rest may be more than there is memory to map
  const ssize_t got = ::pread(fd->get(), head.data(), head.size(), 0);
  if (got < 0) return refuse("a file that cannot be read");
  head.resize(static_cast<size_t>(got));
  if (kind.is(head)) return Ok{};
  return refuse("another file");
}

void FileUses::reads(std::string_view what, const std::string& path) {
  if (!path.empty()) uses_.push_back({std::string(what), path, nullptr});
}

void FileUses::reads_parts(std::string_view what, std::function<std::vector<std::string>()> files) {
  parts_.push_back({std::string(what), std::move(files)});
}

void FileUses::writes(std::string_view what, const std::string& path, const FileKind& kind) {
  if (path.empty() || (path == "-" && kind.dash == FileKind::Dash::kError)) return;
  uses_.push_back({std::string(what), path, &kind});
}

Status FileUses::check_apart() const {
  std::map<std::string, std::vector<size_t>> same;  // uses by the file they name
  std::vector<const std::vector<size_t>*> beside(uses_.size(), nullptr);
  for (size_t k = 0; k < uses_.size(); ++k)
    if (const auto file = identity_of(uses_[k].path)) {
      std::vector<size_t>& all = same[*file];
      all.push_back(k);
      beside[k] = &all;
    }
  for (size_t at = 0; at < uses_.size(); ++at) {
    const Use& written = uses_[at];
    if (!written.kind || !beside[at]) continue;
    for (const size_t k : *beside[at]) {
      const Use& other = uses_[k];
      if (k == at || (other.kind && k > at)) continue;
      return usage("%s and %s are one file", other.what.c_str(), written.what.c_str())
          .in_file(written.path)
          .advise(other.kind ? "give each a file of its own" : kLost);
    }
  }
  return Ok{};
}

Status FileUses::check_parts() const {
  std::map<std::string, const Use*> replaced;  // files of another kind that are there, by their identity
  for (const Use& u : uses_)
    if (std::error_code unknown; u.kind && std::filesystem::is_regular_file(u.path, unknown))
      if (const auto file = identity_of(u.path); file && !check_replaces(u.path, *u.kind, false).ok())
        replaced.emplace(*file, &u);
  if (replaced.empty()) return Ok{};
  for (const Parts& parts : parts_)
    for (const std::string& path : parts.files()) {
      const auto file = identity_of(path);
      const auto at = file ? replaced.find(*file) : replaced.end();
      if (at == replaced.end()) continue;
      return usage("%s and %s are one file", parts.what.c_str(), at->second->what.c_str())
          .in_file(at->second->path)
          .advise(kLost);
    }
  return Ok{};
}

Status FileUses::check(bool force) const {
  for (const Use& u : uses_)
    if (u.kind && u.path == "-" && u.kind->dash == FileKind::Dash::kNone)
      return usage("%s does not go to standard output", u.what.c_str())
          .expecting("the path of a file")
          .advise("./- is a file of that name");
  PERI_TRY(check_apart());
  PERI_TRY(check_parts());
  for (const Use& u : uses_)
    if (u.kind && u.path != "-") PERI_TRY(check_replaces(u.path, *u.kind, force));
  return Ok{};
}

bool FileUses::may_write(const std::string& path, bool force) const {
  FileUses own;
  own.parts_ = parts_;
  for (const Use& u : uses_)
    if (u.path == path || same_file(u.path, path)) own.uses_.push_back(u);
  return own.check(force).ok();
}

bool same_file(const std::string& a, const std::string& b) {
  const auto one = identity_of(a), other = identity_of(b);
  return one && other && *one == *other;
}

std::string behind_links(const std::string& path) {
  std::filesystem::path at = path;
  std::error_code failed;
  for (int followed = 0; followed < kMaxLinks; ++followed) {
    if (!std::filesystem::is_symlink(at, failed) || failed) return at.string();
    const std::filesystem::path to = std::filesystem::read_symlink(at, failed);
    if (failed) return path;
    at = to.is_absolute() ? to : at.parent_path() / to;
  }
  return path;
}

Result<Fd> begin_named_file(const std::string& path) {
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666));
  if (!file.valid()) return os_error("write", path);
  return file;
}

Status append(const Fd& file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("write", "");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return Ok{};
}

Status write_named_file(const std::string& path, std::string_view bytes) {
  struct stat st;
  if (::stat(path.c_str(), &st) != 0 || !S_ISCHR(st.st_mode)) return write_file_atomic(behind_links(path), bytes);
  const Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (!file.valid()) return os_error("write", path);
  if (Status written = append(file, bytes); !written.ok()) return std::move(written).error().in_file(path);
  return Ok{};
}

}  // namespace peri
