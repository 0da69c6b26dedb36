// Cooperation within a warp, as text: products on tensor cores, loading their operands from shared memory, asynchronous
// copies. A host test defines the same functions in plain C++.
#pragma once

#include <string_view>

namespace peri::kernels::cuda {

// Functions for sm_80 and later; addresses of shared memory are 32 bits (peri_shared_at(pointer)). Called by a whole
// warp:
//   peri_matrices(r, at), peri_matrices_across(r, at)   four 8x8 matrices of 16 bits, lane l addresses row l % 8 of
//   matrix
//                                                       l / 8; as rows, or as columns
//   peri_mma_f16(d, a, b), peri_mma_bf16(d, a, b)       d[16,8] += a[16,16] b[16,8]
//   peri_mma_u8(d, a, b), peri_mma_i8(d, a, b)          the same of bytes, b signed, depth 32; sums as bits of floats
//   peri_lane_xor(v, mask), peri_lanes_meet()
// Called by a thread: peri_fetch(at, from, there) copies 16 bytes, zeros if not `there`; peri_fetched() ends a group;
// peri_wait<n>() waits until all but the last n groups are in shared memory. peri_put(at, x) stores 16 bytes.
// peri_bytes_of(a, b, which): four bytes of the eight of a and b, by the digits of `which`, the lowest first.
// peri_chunk(row, chunk, chunks): byte offset of a 16-byte chunk in a tile with `chunks` per row, a power of two; the
// eight rows of a matrix never conflict in a bank.
std::string_view warp_text();

}  // namespace peri::kernels::cuda
