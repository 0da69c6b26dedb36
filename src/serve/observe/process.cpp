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

std::string text_of(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
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

double seconds_of(const rusage& u) {
  return static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

// Takes the next number of a line; false: there is none.
bool next_number(std::string_view* line, uint64_t* v) {
  const size_t at = line->find_first_of("0123456789");
  if (at == std::string_view::npos) return false;
  const auto read = std::from_chars(line->data() + at, line->data() + line->size(), *v);
  *line = line->substr(static_cast<size_t>(read.ptr - line->data()));
  return true;
}

double tick_seconds() { return 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK)); }

// Memory, threads and descriptors of the process with this folder in /proc.
ProcessUse use_in(const std::string& folder) {
  ProcessUse out;
  const std::string status = text_of(folder + "/status");
  out.resident_bytes = number_at(status, "VmRSS:") << 10;
  out.peak_bytes = number_at(status, "VmHWM:") << 10;
  out.threads = static_cast<int64_t>(number_at(status, "Threads:"));
  if (DIR* listed = opendir((folder + "/fd").c_str())) {
    while (readdir(listed)) ++out.descriptors;
    closedir(listed);
    out.descriptors -= 2;  // "." and ".."
  }
  return out;
}
}  // namespace

ProcessUse use_of(int64_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  ProcessUse out = use_in(folder);
  // "PID (NAME) STATE ...": 11 fields behind the name come user and system, in ticks
  const std::string stat = text_of(folder + "/stat");
  std::string_view line = stat;
  line = line.substr(std::min(line.rfind(')'), line.size()));
  for (int k = 0; k < 12; ++k) line = line.substr(std::min(line.find(' ', 1), line.size()));
  uint64_t v = 0;
  for (int k = 0; k < 2 && next_number(&line, &v); ++k) out.cpu_seconds += static_cast<double>(v) * tick_seconds();
  return out;
}

double ended_cpu_seconds() {
  rusage u{};
  getrusage(RUSAGE_CHILDREN, &u);
  return seconds_of(u);
}

ProcessUse process_use(const std::string& root) {
  ProcessUse out = use_in("/proc/self");
  out.descriptors -= out.descriptors > 0 ? 1 : 0;  // that of the folder
  const device::MemoryInfo memory = device::read_memory(root);
  out.total_bytes = static_cast<uint64_t>(memory.total_bytes);
  out.used_bytes = out.total_bytes - std::min(static_cast<uint64_t>(memory.available_bytes), out.total_bytes);
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  out.cpu_seconds = seconds_of(u);
  // "cpu  user nice system idle iowait irq softirq steal", in ticks
  const std::string stat = text_of("/proc/stat");
  std::string_view line = std::string_view(stat).substr(0, stat.find('\n'));
  uint64_t v = 0;
  for (int k = 0; k < 8 && next_number(&line, &v); ++k) {
    out.machine_all_s += static_cast<double>(v) * tick_seconds();
    if (k != 3 && k != 4) out.machine_busy_s += static_cast<double>(v) * tick_seconds();
  }
  return out;
}

}  // namespace peri::serve
