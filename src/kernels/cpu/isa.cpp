// cpuid says what the chip has, xgetbv what the operating system saves on a context switch; both must agree.
#include "kernels/cpu/isa.hpp"

#include <cpuid.h>

#include <cstdint>

namespace peri::kernels::cpu {
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

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
  }
  return "unknown";
}

std::optional<Isa> isa_from_name(std::string_view name) {
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (isa_name(isa) == name) return isa;
  }
  return std::nullopt;
}

namespace {
std::optional<Isa> read_isa() {
  constexpr int kFma = 12, kOsxsave = 27, kAvx = 28, kF16c = 29;                           // leaf 1, ecx
  constexpr int kAvx2 = 5, kAvx512f = 16, kAvx512dq = 17, kAvx512bw = 30, kAvx512vl = 31;  // leaf 7, ebx
  constexpr uint64_t kYmmState = 0x06, kZmmState = 0xe6;
  const Leaf one = cpuid(1, 0);
  if (!has(one.ecx, kOsxsave) || !has(one.ecx, kAvx) || !has(one.ecx, kFma) || !has(one.ecx, kF16c))
    return std::nullopt;
  const uint64_t state = saved_state();
  const Leaf seven = cpuid(7, 0);
  if ((state & kYmmState) != kYmmState || !has(seven.ebx, kAvx2)) return std::nullopt;
  const bool wide = has(seven.ebx, kAvx512f) && has(seven.ebx, kAvx512dq) && has(seven.ebx, kAvx512bw) &&
                    has(seven.ebx, kAvx512vl) && (state & kZmmState) == kZmmState;
  return wide ? Isa::kAvx512 : Isa::kAvx2;
}
}  // namespace

std::optional<Isa> detect_isa() {
  static const std::optional<Isa> kIsa = read_isa();  // cpuid costs tens of microseconds in a virtual machine
  return kIsa;
}

bool runs_here(Isa isa) {
  const std::optional<Isa> best = detect_isa();
  return best && static_cast<int>(isa) <= static_cast<int>(*best);
}

}  // namespace peri::kernels::cpu
