// The one place that asks the CPU and the operating system what they are: cpuid says what the chip has, xgetbv what the
// system saves on a context switch, /sys how large the caches are.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <optional>

#include "base/system_text.hpp"
#include "base/thread_pool.hpp"
#include "device/cpu_core.hpp"
#include "device/running.hpp"
#include "device/target.hpp"

namespace peri::device {

namespace {
struct Leaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};
Leaf cpuid(uint32_t leaf, uint32_t subleaf) {
  Leaf out;
  __get_cpuid_count(leaf, subleaf, &out.eax, &out.ebx, &out.ecx, &out.edx);
  return out;
}
bool has(uint32_t word, int bit) { return ((word >> bit) & 1u) != 0; }

uint64_t saved_state() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

// Linux saves the registers of AMX for a process that asked for them, once for all of its threads.
bool tiles_granted() {
  constexpr long kArchRequestPermission = 0x1023, kTileData = 18;  // arch_prctl(2)
  return syscall(SYS_arch_prctl, kArchRequestPermission, kTileData) == 0;
}

// avx2: with fma and f16c. avx512: f, bw, dq and vl (Skylake-X and later, Zen 4 and later).
std::vector<std::string> isas() {
  constexpr int kFma = 12, kOsxsave = 27, kAvx = 28, kF16c = 29;                           // leaf 1, ecx
  constexpr int kAvx2 = 5, kAvx512f = 16, kAvx512dq = 17, kAvx512bw = 30, kAvx512vl = 31;  // leaf 7, ebx
  constexpr int kAvx512Vnni = 11;                                                          // leaf 7, ecx
  constexpr int kAmxTile = 24, kAmxInt8 = 25;                                              // leaf 7, edx
  constexpr int kAvx512Bf16 = 5;                                                           // leaf 7.1, eax
  constexpr uint64_t kYmmState = 0x06, kZmmState = 0xe6, kTileState = 0x60000;
  const std::span<const std::string_view> names = cpu_isas();
  const Leaf one = cpuid(1, 0), seven = cpuid(7, 0);
  std::vector<std::string> out;
  if (!has(one.ecx, kOsxsave) || !has(one.ecx, kAvx) || !has(one.ecx, kFma) || !has(one.ecx, kF16c)) return out;
  const uint64_t state = saved_state();
  if ((state & kYmmState) != kYmmState || !has(seven.ebx, kAvx2)) return out;
  out.emplace_back(names[0]);
  if ((state & kZmmState) != kZmmState || !has(seven.ebx, kAvx512f) || !has(seven.ebx, kAvx512dq) ||
      !has(seven.ebx, kAvx512bw) || !has(seven.ebx, kAvx512vl))
    return out;
  out.emplace_back(names[1]);
  if (!has(seven.ecx, kAvx512Vnni)) return out;
  out.emplace_back(names[2]);
  if (seven.eax < 1 || !has(cpuid(7, 1).eax, kAvx512Bf16)) return out;
  out.emplace_back(names[3]);
  if ((state & kTileState) == kTileState && has(seven.edx, kAmxTile) && has(seven.edx, kAmxInt8) && tiles_granted())
    out.emplace_back(names[4]);
  return out;
}

std::string_view trimmed(std::string_view s) {
  constexpr std::string_view kBlank = " \t\n";
  const size_t first = s.find_first_not_of(kBlank);
  return first == std::string_view::npos ? "" : s.substr(first, s.find_last_not_of(kBlank) - first + 1);
}

std::string brand() {
  std::string out;
  if (cpuid(0x80000000u, 0).eax < 0x80000004u) return out;
  for (uint32_t k = 0; k < 3; ++k) {
    const Leaf part = cpuid(0x80000002u + k, 0);
    out.append(reinterpret_cast<const char*>(&part), sizeof part);
  }
  return std::string(trimmed(out.substr(0, out.find('\0'))));
}

// "48K" as bytes.
int64_t bytes_of(std::string_view text) {
  int64_t n = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (code != std::errc() || n < 0 || n > (int64_t{1} << 40)) return 0;
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  return n << (unit == "M" ? 20 : unit == "K" ? 10 : 0);
}

std::vector<Cache> caches() {
  std::vector<Cache> out;
  for (int k = 0; k < 8; ++k) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(k) + "/";
    const std::string level = system_text(folder + "level"), size = system_text(folder + "size");
    std::string type(trimmed(system_text(folder + "type")));
    const int64_t bytes = bytes_of(trimmed(size));
    if (level.empty() || bytes == 0) break;
    for (char& c : type) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    out.push_back({"L" + std::string(trimmed(level)) + " " + type, bytes});
  }
  return out;
}
}  // namespace

const std::vector<std::string>& this_isas() {
  static const std::vector<std::string> kIsas = isas();
  return kIsas;
}

const Target& this_cpu() {
  static const Target kTarget = {Kind::kCpu, brand(), this_isas(), usable_cpus(), caches(), {}};
  return kTarget;
}

Target running_target(int threads, std::vector<std::string> libraries) {
  return {Kind::kCpu, "", this_isas(), threads, {}, std::move(libraries)};
}

Target cpu_target(int threads, std::vector<std::string> libraries) {
  Target out = this_cpu();
  out.threads = threads;
  out.libraries = std::move(libraries);
  return out;
}

CpuCore cpu_core() {
  constexpr uint32_t kMaker = 0x68747541, kLowHalf = 0xffff;  // leaf 0, ebx: "Auth"
  constexpr int kTiles = 24;                                  // leaf 7, edx
  CpuCore core;
  core.amd = cpuid(0, 0).ebx == kMaker;
  core.tiles = has(cpuid(7, 0).edx, kTiles);
  const Leaf clock = cpuid(0x16, 0);  // base and highest clock in MHz, of Intel processors
  if (!core.amd && (clock.ebx & kLowHalf) >= (clock.eax & kLowHalf)) core.stated_ghz = (clock.ebx & kLowHalf) / 1e3;
  return core;
}

}  // namespace peri::device
