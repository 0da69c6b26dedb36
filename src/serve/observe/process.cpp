// An unreadable file in /proc yields zeros: no request fails because of it.
#include "serve/observe/process.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "base/file.hpp"
#include "device/memory_limits.hpp"

namespace peri::serve {
namespace {

std::string text_of(const char* path) {
  const Fd fd(open(path, O_RDONLY | O_CLOEXEC));
  std::string out(16384, '\0');
  const ssize_t n = fd.valid() ? read(fd.get(), out.data(), out.size()) : 0;
  out.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return out;
}

// The number after a word.
uint64_t number_at(std::string_view text, std::string_view word) {
  size_t at = text.find(word);
  if (at == std::string_view::npos) return 0;
  at = text.find_first_of("0123456789", at + word.size());
  uint64_t v = 0;
  if (at != std::string_view::npos) std::from_chars(text.data() + at, text.data() + text.size(), v);
  return v;
}
}  // namespace

ProcessUse process_use(const std::string& root) {
  ProcessUse out;
  const std::string status = text_of("/proc/self/status"), stat = text_of("/proc/stat");
  out.resident_bytes = number_at(status, "VmRSS:") << 10;
  out.peak_bytes = number_at(status, "VmHWM:") << 10;
  out.threads = static_cast<int64_t>(number_at(status, "Threads:"));
  const device::MemoryInfo memory = device::read_memory(root);
  out.total_bytes = static_cast<uint64_t>(memory.total_bytes);
  out.used_bytes = out.total_bytes - std::min(static_cast<uint64_t>(memory.available_bytes), out.total_bytes);
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  out.cpu_seconds = static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                    1e-6 * static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
  // "cpu  user nice system idle iowait irq softirq steal", in ticks
  std::string_view line = std::string_view(stat).substr(0, stat.find('\n'));
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  for (int k = 0; k < 8; ++k) {
    const size_t at = line.find_first_of("0123456789");
    if (at == std::string_view::npos) break;
    uint64_t v = 0;
    const auto read = std::from_chars(line.data() + at, line.data() + line.size(), v);
    line = line.substr(static_cast<size_t>(read.ptr - line.data()));
    out.machine_all_s += static_cast<double>(v) * tick;
    if (k != 3 && k != 4) out.machine_busy_s += static_cast<double>(v) * tick;
  }
  if (DIR* folder = opendir("/proc/self/fd")) {
    while (readdir(folder)) ++out.descriptors;
    closedir(folder);
    out.descriptors -= 3;  // ".", ".." and the descriptor of the folder
  }
  return out;
}

}  // namespace peri::serve
