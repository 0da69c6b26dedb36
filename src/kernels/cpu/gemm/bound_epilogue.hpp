// A matched epilogue in the form that the loops of cpu/ execute, with the pointers of a run.
#pragma once

#include "kernels/cpu/gemm/epilogue.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {

// The epilogue with its pointers: constants from `constants`, others from `args`. `ld` is the distance of result rows
// in floats. It points into `m`, `constants` and `args`, which must outlive it.
cpu::Epilogue bind_epilogue(const MatchedEpilogue& m, std::span<const Tensor> constants, const Args& args, int64_t ld);

}  // namespace peri::kernels
