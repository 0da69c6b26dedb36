// Reads the control group's files where this process sees them mounted; page cache that can be reclaimed counts as
// available, as in MemAvailable.
#include "serve/memory/ram.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/file.hpp"

namespace peri::serve {

namespace {
constexpr size_t kMaxFile = 1 << 20;

std::string text_of(const std::string& path) {
  auto text = read_file(path, kMaxFile);
  return text.ok() ? std::move(*text) : std::string();
}

std::optional<int64_t> number_in(std::string_view text) {
  const size_t at = text.find_first_of("0123456789");
  int64_t v = 0;
  if (at == std::string_view::npos || std::from_chars(text.data() + at, text.data() + text.size(), v).ec != std::errc())
    return std::nullopt;
  return v;
}

// The number after a key at the beginning of a line.
std::optional<int64_t> row(const std::string& text, const std::string& key) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (text.compare(at, key.size(), key) == 0)
      return number_in(std::string_view(text).substr(at + key.size(), end - at - key.size()));
    at = end + 1;
  }
  return std::nullopt;
}
}  // namespace

Ram read_ram(const std::string& root) {
  Ram out;
  const std::string info = text_of(root + "/proc/meminfo");
  out.total_bytes = row(info, "MemTotal:").value_or(0) * 1024;
  out.available_bytes = row(info, "MemAvailable:").value_or(0) * 1024;
  const std::string group = root + "/sys/fs/cgroup/";
  const auto limit = number_in(text_of(group + "memory.max"));
  const auto used = number_in(text_of(group + "memory.current"));
  if (!limit || !used || *limit <= 0 || (out.known() && *limit >= out.total_bytes)) return out;
  const int64_t cache = row(text_of(group + "memory.stat"), "inactive_file ").value_or(0);
  const int64_t left = std::max<int64_t>(*limit - *used + cache, 0);
  out.available_bytes = out.known() ? std::min(out.available_bytes, left) : left;
  out.total_bytes = *limit;
  return out;
}

int64_t resident_bytes() {
  const std::string text = text_of("/proc/self/statm");
  const size_t at = text.find(' ');
  if (at == std::string::npos) return 0;
  return number_in(std::string_view(text).substr(at)).value_or(0) * sysconf(_SC_PAGESIZE);
}

}  // namespace peri::serve
