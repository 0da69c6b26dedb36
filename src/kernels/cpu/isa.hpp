// The instruction sets our CPU kernels are compiled for, and which of them this machine runs. A plan names its Isa, so
// a test (or a lock file) can ask for a lesser one than the machine has; nothing else chooses.
#pragma once

#include <optional>
#include <string_view>

namespace peri::kernels::cpu {

// Ordered: a machine that runs one runs all before it.
enum class Isa {
  kAvx2,    // avx2 + fma + f16c
  kAvx512,  // kAvx2 and avx512 f, bw, dq, vl (Skylake-X and later, Zen 4 and later)
};

// The word in logs, locks and file names: "avx2", "avx512".
std::string_view isa_name(Isa isa);
std::optional<Isa> isa_from_name(std::string_view name);

// The best Isa that the CPU reports and the operating system saves (xgetbv); empty where there is not even AVX2. Pure;
// any thread.
std::optional<Isa> detect_isa();

// Whether kernels compiled for `isa` may run here.
bool runs_here(Isa isa);

}  // namespace peri::kernels::cpu
