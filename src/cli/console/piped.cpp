// A pipe has no size beforehand: it is read until its end, or until it holds more than it may.
#include "cli/console/piped.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/bytes.hpp"
#include "base/file.hpp"

namespace peri::cli {

namespace {
// A pipe by the number of an open file, as /dev/fd/63: it has a writer. Who waits for a FIFO with a name may wait for
// ever.
bool is_open_pipe(const std::string& path) {
  struct stat st;
  return (path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/") || path == "/dev/stdin") &&
         ::stat(path.c_str(), &st) == 0 && S_ISFIFO(st.st_mode);
}
}  // namespace

Result<std::string> read_file_or_pipe(const std::string& path, size_t max_bytes) {
  if (!is_open_pipe(path)) return read_file(path, max_bytes);
  const Fd pipe(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!pipe.valid()) return os_error("open", path);
  constexpr size_t kPiece = size_t{1} << 16;  // what a pipe holds
  std::string out, piece(kPiece, '\0');
  for (;;) {
    const ssize_t n = ::read(pipe.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("read", path);
    if (n == 0) return out;
    out.append(piece, 0, static_cast<size_t>(n));
    if (out.size() > max_bytes)
      return Error(ErrorKind::kMemory, "what the pipe gives is too large")
          .in_file(path)
          .expecting("at most " + mib_text(static_cast<int64_t>(max_bytes)))
          .but_found("more");
  }
}

}  // namespace peri::cli
