// Names of instruction sets, and their selection.
#include "kernels/cpu/isa.hpp"

#include "device/target.hpp"

namespace peri::kernels::cpu {

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

Result<Isa> best_isa(const device::Target& target) {
  for (Isa isa : {Isa::kAvx512, Isa::kAvx2}) {
    if (target.kind == device::Kind::kCpu && target.has(isa_name(isa))) return isa;
  }
  return refused("needs AVX2");
}

}  // namespace peri::kernels::cpu
