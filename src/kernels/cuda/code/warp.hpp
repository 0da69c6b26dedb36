// What a warp does together, as text: products on tensor cores, their operands from shared memory, copies that run
// while it computes. A host's test gives the same functions in plain C++.
#pragma once

#include <string_view>

namespace peri::kernels::cuda {

// Functions for sm_80 and later; addresses of shared memory are 32 bits (peri_shared_at(pointer)). By all of a warp:
//   peri_matrices(r, at), peri_matrices_across(r, at)   four 8x8 matrices of 16 bits, lane l names row l % 8 of matrix
//                                                       l / 8; as rows, or as columns
//   peri_mma_f16(d, a, b), peri_mma_bf16(d, a, b)       d[16,8] += a[16,16] b[16,8]
//   peri_lane_xor(v, mask), peri_lanes_meet()
// By a thread: peri_fetch(at, from, there) of 16 bytes, zeros where not `there`; peri_fetched() ends a group of them;
// peri_wait<n>() until all but the last n groups are in shared memory. peri_put(at, x) stores 16 bytes.
// peri_chunk(row, chunk, chunks): bytes to a chunk of 16 of a tile whose rows hold `chunks`, a power of two; eight rows
// that a matrix is read from never meet in a bank.
std::string_view warp_text();

}  // namespace peri::kernels::cuda
