// The instruction sets for which our CPU kernels are compiled. The one that a plan uses follows from the Target it is
// made for, so that a plan for a less capable machine can be made, and run, on this one; nothing else selects it.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.hpp"

namespace peri::device {
struct Target;
}  // namespace peri::device

namespace peri::kernels::cpu {

// Ordered: a machine that supports one supports all before it.
enum class Isa {
  kAvx2,    // avx2 + fma + f16c
  kAvx512,  // kAvx2 and avx512 f, bw, dq, vl (Skylake-X and later, Zen 4 and later)
};

// Its name in targets, logs and locks: "avx2", "avx512".
std::string_view isa_name(Isa isa);
std::optional<Isa> isa_from_name(std::string_view name);

// The best Isa of the target. kRefused where it lacks even AVX2.
Result<Isa> best_isa(const device::Target& target);

}  // namespace peri::kernels::cpu
