// A limit at or above the machine's memory is none: version 1 writes a number of 63 bits for no limit.
#include "device/memory_limits.hpp"

#include <algorithm>

#include "base/control_groups.hpp"
#include "base/result.hpp"
#include "base/system_text.hpp"

namespace peri::device {

namespace {
struct Names {
  const char *limit, *used, *cache;
};
constexpr Names kUnified = {"/memory.max", "/memory.current", "inactive_file"};
constexpr Names kFirst = {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"};

// `machine_bytes`: of the machine, 0 if unknown.
void limit_by(const std::string& folder, const Names& names, double machine_bytes, MemoryInfo* out) {
  constexpr double kMaxBytes = 9e18;  // converts to int64_t
  const double limit = number_in(folder + names.limit, -1), used = number_in(folder + names.used, -1);
  if (limit < 0 || used < 0 || limit >= (machine_bytes > 0 ? machine_bytes : kMaxBytes)) return;
  const double cache = number_behind(system_text(folder + "/memory.stat"), names.cache, 0);
  const auto most = static_cast<int64_t>(limit);
  const auto left = static_cast<int64_t>(std::clamp(limit - used + cache, 1.0, std::max(limit, 1.0)));  // 0: unknown
  const bool known = out->total_bytes > 0;
  out->total_bytes = known ? std::min(out->total_bytes, most) : most;
  out->available_bytes = known ? std::min(out->available_bytes, left) : left;
}
}  // namespace

MemoryInfo read_memory(const std::string& root) {
  constexpr double kKilo = 1024;
  const std::string info = system_text(root + "/proc/meminfo");
  const double machine = number_behind(info, "MemTotal:", 0) * kKilo;
  MemoryInfo out = {static_cast<int64_t>(machine),
                    static_cast<int64_t>(number_behind(info, "MemAvailable:", 0) * kKilo)};
  const ControlGroups groups = control_groups("memory", root);
  for (const std::string& folder : groups.unified) limit_by(folder, kUnified, machine, &out);
  for (const std::string& folder : groups.first) limit_by(folder, kFirst, machine, &out);
  return out;
}

MemoryInfo host_memory() { return read_memory(); }

std::string lacks_host_memory(double bytes, const char* what) {
  constexpr double kSmallBytes = 256 << 20, kShareOfFree = 0.8;  // why: in the header
  const auto free = static_cast<double>(host_memory().available_bytes);
  if (bytes <= kSmallBytes || free <= 0 || bytes <= kShareOfFree * free) return "";
  return format("%s %.1f GiB of memory, and %.1f are free%s", what, bytes / (1 << 30), free / (1 << 30),
                bytes < free ? ", of which it may take four fifths" : "");
}

}  // namespace peri::device
