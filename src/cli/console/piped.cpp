// A pipe has no size beforehand: it is read until its end, or until it holds more than it may.
#include "cli/console/piped.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/bytes.hpp"
#include "base/file.hpp"

namespace peri::cli {

Result<std::string> read_file_or_pipe(const std::string& path, size_t max_bytes) {
  struct stat st;
  if (::stat(path.c_str(), &st) != 0 || !S_ISFIFO(st.st_mode)) return read_file(path, max_bytes);
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
