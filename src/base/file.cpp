// Opening and reading. A path from the user is followed; a name from a model is resolved strictly below its folder.
#include "base/file.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/hash.hpp"
#include "base/plural.hpp"

namespace peri {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = other.release();
  }
  return *this;
}
Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}
int Fd::release() {
  const int out = fd_;
  fd_ = -1;
  return out;
}

Error os_error(const char* action, std::string_view file) {
  const int code = errno;
  char buffer[128];
  return io_error("cannot %s: %s", action, strerror_r(code, buffer, sizeof buffer)).in_file(file);
}

namespace {

// Adds to EACCES what forbids it: the file, or the first folder of its path that the user may not enter.
Error cannot_open(const std::string& path) {
  const int code = errno;
  Error e = os_error("open", path);
  if (code != EACCES) return e;
  const std::string user = format("this user (%lld) ", static_cast<long long>(::geteuid()));
  for (size_t at = path.find('/', 1); at != path.npos; at = path.find('/', at + 1)) {
    const std::string folder = path.substr(0, at);
    if (::faccessat(AT_FDCWD, folder.c_str(), X_OK, AT_EACCESS) != 0 && errno == EACCES)
      return std::move(e).advise(user + "may not enter the folder '" + folder + "': give it the permission");
  }
  return std::move(e).advise(user + "may not read it: give it the permission");
}

constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;  // O_NONBLOCK: a FIFO must not make us wait

Status require_regular(const struct stat& st, std::string_view name) {
  const char* what = nullptr;
  if (S_ISREG(st.st_mode)) return Ok{};
  if (S_ISDIR(st.st_mode))
    what = "a folder";
  else if (S_ISFIFO(st.st_mode))
    what = "a FIFO";
  else if (S_ISSOCK(st.st_mode))
    what = "a socket";
  else if (S_ISLNK(st.st_mode))
    what = "a symlink";
  else
    what = "a device";
  return invalid("not a file").in_file(name).expecting("a regular file").but_found(what);
}

Result<Fd> checked(Fd fd, std::string_view name) {
  struct stat st;
  if (::fstat(fd.get(), &st) != 0) return os_error("read the state of the file", name);
  PERI_TRY(require_regular(st, name));
  return fd;
}

Error escapes(const std::string& shown, const char* why) {
  return invalid("file name leads out of its folder: %s", why).in_file(shown).expecting("a plain relative name");
}

// Components of an untrusted relative name, "." left out.
Result<std::vector<std::string>> components(std::string_view relative, const std::string& shown) {
  if (relative.empty()) return invalid("file name is empty").in_file(shown);
  if (relative.find('\0') != relative.npos) return invalid("file name holds a NUL").in_file(shown);
  if (relative.size() > 4096) return invalid("file name of %zu bytes is too long", relative.size()).in_file(shown);
  if (relative[0] == '/') return escapes(shown, "it is absolute");
  std::vector<std::string> out;
  for (size_t at = 0; at <= relative.size();) {
    const size_t end = std::min(relative.find('/', at), relative.size());
    const std::string_view part = relative.substr(at, end - at);
    if (part == "..") return escapes(shown, "it holds \"..\"");
    if (!part.empty() && part != ".") out.emplace_back(part);
    at = end + 1;
  }
  if (out.empty()) return invalid("file name names no file").in_file(shown);
  return out;
}

// A descriptor, or minus the error: nothing that runs between may change it.
int descriptor_or_error(long fd) { return static_cast<int>(fd >= 0 ? fd : -errno); }

constexpr int kFolderFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;

// Walks one component at a time without following any link (-ELOOP: there is one).
int open_walking(int folder, const std::vector<std::string>& parts, int flags) {
  Fd held;
  int at = folder;
  for (size_t i = 0; i + (flags == kFolderFlags ? 0 : 1) < parts.size(); ++i) {
    Fd next(::openat(at, parts[i].c_str(), kFolderFlags | O_NOFOLLOW));
    if (!next.valid()) {
      if (errno == ENOTDIR) {  // O_DIRECTORY hides that it is a link
        struct stat st;
        const bool link = ::fstatat(at, parts[i].c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
        return link ? -ELOOP : -ENOTDIR;
      }
      return -errno;
    }
    held = std::move(next);
    at = held.get();
  }
  return flags == kFolderFlags ? held.release()
                               : descriptor_or_error(::openat(at, parts.back().c_str(), flags | O_NOFOLLOW));
}

int open_strictly(int folder, const std::vector<std::string>& parts, int flags) {
  std::string path;
  for (const std::string& part : parts) path += (path.empty() ? "" : "/") + part;
  struct open_how how = {};
  how.flags = static_cast<uint64_t>(flags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  for (int tries = 0; tries < 8; ++tries) {  // EAGAIN: the tree changed during the walk
    const int fd = descriptor_or_error(::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how));
    // ENOSYS: kernel before 5.6; EPERM: a container's filter that does not know the call.
    if (fd == -ENOSYS || fd == -EPERM) break;
    if (fd != -EAGAIN && fd != -EINTR) return fd;
  }
  return open_walking(folder, parts, flags);
}

// The file itself may be a link, as hub caches have them; no folder on the way to it is one.
Result<Fd> open_behind_link(int folder, std::vector<std::string> parts, const std::string& shown) {
  const std::string name = std::move(parts.back());
  parts.pop_back();
  Fd held;
  if (!parts.empty()) {
    const int opened = open_strictly(folder, parts, kFolderFlags);
    if (opened == -ELOOP || opened == -EXDEV) return escapes(shown, "it goes through a symlink");
    errno = std::max(-opened, 0);
    if (opened < 0) return cannot_open(shown);
    held = Fd(opened);
    folder = held.get();
  }
  struct stat st;
  if (::fstatat(folder, name.c_str(), &st, 0) != 0) return cannot_open(shown);
  PERI_TRY(require_regular(st, shown));
  Fd fd(::openat(folder, name.c_str(), kReadFlags));
  if (!fd.valid()) return cannot_open(shown);
  return checked(std::move(fd), shown);
}

}  // namespace

Result<Fd> open_file(const std::string& path) {
  if (path.empty()) return invalid("file name is empty");
  if (path.find('\0') != path.npos) return invalid("file name holds a NUL").in_file(path.c_str());
  struct stat st;  // before opening: opening a device or FIFO can have effects
  if (::stat(path.c_str(), &st) != 0) return cannot_open(path);
  PERI_TRY(require_regular(st, path));
  Fd fd(::open(path.c_str(), kReadFlags));
  if (!fd.valid()) return cannot_open(path);
  return checked(std::move(fd), path);
}

Result<Fd> open_beneath(const std::string& dir, std::string_view relative, Links links) {
  const std::string shown = dir + "/" + std::string(relative.substr(0, 300));
  PERI_ASSIGN(const std::vector<std::string> parts, components(relative, shown));
  const Fd folder(::open(dir.c_str(), kFolderFlags));
  if (!folder.valid()) return os_error("open the folder", dir);
  if (links == Links::kHubCache) return open_behind_link(folder.get(), parts, shown);
  const int opened = open_strictly(folder.get(), parts, kReadFlags);
  if (opened == -ELOOP || opened == -EXDEV) return escapes(shown, "it is, or goes through, a symlink");
  if (opened == -ENXIO)  // a socket, or a FIFO opened for the other end
    return invalid("not a file").in_file(shown).expecting("a regular file").but_found("a socket or device");
  errno = std::max(-opened, 0);
  if (opened < 0) return cannot_open(shown);
  return checked(Fd(opened), shown);
}

Result<uint64_t> file_size(const Fd& fd, std::string_view name) {
  struct stat st;
  if (::fstat(fd.get(), &st) != 0) return os_error("read the state of the file", name);
  return static_cast<uint64_t>(st.st_size);
}

Result<std::string> read_file(const std::string& path, size_t max_bytes) {
  PERI_ASSIGN(const Fd fd, open_file(path));
  return read_file(fd, path, max_bytes);
}

Result<std::string> read_file(const Fd& fd, std::string_view name, size_t max_bytes) {
  const auto too_large = [&](uint64_t size) {
    return Error(ErrorKind::kMemory, "file is too large")
        .in_file(name)
        .expecting(format("at most %zu bytes", max_bytes))
        .but_found(counted(static_cast<int64_t>(size), "byte"));
  };
  PERI_ASSIGN(const uint64_t size, file_size(fd, name));
  if (size > max_bytes) return too_large(size);
  std::string out(static_cast<size_t>(size), '\0');
  size_t got = 0;
  for (;;) {
    if (got == out.size()) {  // one more byte tells the end of the file from a file that grew, or says no size (/proc)
      if (got > max_bytes) return too_large(got);
      out.resize(got + (size == 0 ? 4096 : 1));
    }
    const ssize_t n = ::pread(fd.get(), out.data() + got, out.size() - got, static_cast<off_t>(got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("read", name);
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  if (got > max_bytes) return too_large(got);
  if (got < size)
    return io_error("file was cut while it was read")
        .in_file(name)
        .expecting(counted(static_cast<int64_t>(size), "byte"))
        .but_found(format("%zu", got));
  out.resize(got);
  return out;
}

std::string percent_encode_name(std::string_view name) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(name[i]);
    const bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (letter || c == '_' || c == '-' || (c == '.' && i > 0))
      out += static_cast<char>(c);
    else
      out += format("%%%02X", c);
  }
  // A file name has at most 255 bytes, an ending and those of a temporary name included.
  constexpr size_t kMaxEncoded = 230, kKept = 200;
  if (out.size() <= kMaxEncoded) return out;
  size_t kept = kKept;
  for (const size_t at : {kKept - 2, kKept - 1})  // not within a %XX
    if (out[at] == '%') kept = at;
  return out.substr(0, kept) + "-" + hex64(hash_text(name));
}

}  // namespace peri
