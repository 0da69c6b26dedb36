// Writing whole files: the bytes go to a file without a name, reach the disk, then take the name in one step. Where a
// file system has no nameless files, or there is no /proc to name one by, to a hidden file beside it.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "base/file.hpp"
#include "base/path.hpp"

namespace peri {

namespace {

constexpr size_t kMinStartBytes = size_t{1} << 20;  // bytes of one write that the disk is told of at once

std::string path_of(const Fd& fd) { return format("/proc/self/fd/%d", fd.get()); }

std::string hidden_name(const std::string& path) {
  static constinit std::atomic<unsigned> count{0};
  const std::string folder = folder_of(path);
  return format("%s/.peri-%ld-%u.partial", folder.c_str(), static_cast<long>(::getpid()), count++);
}

// A file that is open can be named only through /proc, which a container or a chroot may lack.
bool can_be_named(const Fd& fd) {
  struct stat st;
  return ::stat(path_of(fd).c_str(), &st) == 0;
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  if (path.empty() || path.back() == '/' || path.find('\0') != path.npos)
    return usage("cannot write a file of this name").in_file(path.c_str());
  struct stat st;
  if (::lstat(path.c_str(), &st) == 0 && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
    return invalid("will not be overwritten")
        .in_file(path)
        .expecting("a regular file or none")
        .but_found(S_ISDIR(st.st_mode) ? "a folder" : "a device, FIFO or socket");
  AtomicFile out;
  out.path_ = path;
  const std::string folder = folder_of(path);
  out.fd_ = Fd(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
  if (out.fd_.valid() && can_be_named(out.fd_)) return out;
  if (!out.fd_.valid() && errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
    return os_error("write into the folder", folder);
  out.fd_ = Fd();
  for (int tries = 0; tries < 100 && !out.fd_.valid(); ++tries) {
    out.temp_ = hidden_name(path);
    out.fd_ = Fd(::open(out.temp_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!out.fd_.valid() && errno != EEXIST) break;
  }
  if (out.fd_.valid()) return out;
  out.temp_.clear();
  return os_error("write into the folder", folder);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), temp_(std::exchange(other.temp_, {})), fd_(std::move(other.fd_)) {}

AtomicFile::~AtomicFile() {
  if (!temp_.empty()) ::unlink(temp_.c_str());
}

Status AtomicFile::write(const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(fd_.get(), at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("write", path_);
    at += n;
    size -= static_cast<size_t>(n);
  }
  return Ok{};
}

Status AtomicFile::write_at(uint64_t offset, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  off_t to = static_cast<off_t>(offset);
  for (size_t left = size; left > 0;) {
    const ssize_t n = ::pwrite(fd_.get(), at, left, to);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("write", path_);
    at += n;
    to += n;
    left -= static_cast<size_t>(n);
  }
  // The disk works while more is copied; commit() waits for all. A file system that cannot does it then.
  if (size >= kMinStartBytes)
    (void)::sync_file_range(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(size), SYNC_FILE_RANGE_WRITE);
  return Ok{};
}

Status AtomicFile::commit() {
  if (::fsync(fd_.get()) != 0) return os_error("write to the disk", path_);
  if (temp_.empty()) {
    const std::string nameless = path_of(fd_);
    std::string name;
    int done = -1;
    for (int tries = 0; tries < 100 && done != 0; ++tries) {
      name = hidden_name(path_);
      done = ::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW);
      if (done != 0 && errno != EEXIST) break;
    }
    if (done != 0) return os_error("name the file", path_);
    temp_ = name;
  }
  if (::rename(temp_.c_str(), path_.c_str()) != 0) return os_error("name the file", path_);
  temp_.clear();
  const Fd folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid()) (void)::fsync(folder.get());  // a file system that cannot is no failure of ours
  return Ok{};
}

Status write_file_atomic(const std::string& path, std::string_view bytes) {
  PERI_ASSIGN(AtomicFile file, AtomicFile::create(path));
  PERI_TRY(file.write(bytes));
  return file.commit();
}

}  // namespace peri
