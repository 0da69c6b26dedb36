// Source text of the tiled product: operands staged in shared memory, and two ways to add up.
#pragma once

#include <string_view>

namespace peri::kernels::cuda {

// After the functions of Product and the macros PERI_M, PERI_N, PERI_K, PERI_TM, PERI_TN, PERI_TK, PERI_THREADS,
// PERI_SPLIT, PERI_PARTED, PERI_CLUSTER, PERI_A_ALONG_M, PERI_B_ALONG_K, PERI_A_WIDE, PERI_B_WIDE, PERI_B_RUNS, and
// where PERI_PARTED is 1 PERI_BATCH and PERI_PARTS, the workspace.
// Kernel peri_product. product_plain_text(): sums in float32 or int32; each of 256 threads has every 16th row and
// column of a tile; nothing is wide. product_f64_text(): sums in float64 on tensor cores, of products that are exact,
// by PERI_DOWN times PERI_ACROSS warps, in dynamic shared memory: PERI_STAGES * (PERI_TM + PERI_TN) * PERI_TK floats,
// and where PERI_CLUSTER is 1 at least PERI_TM * (PERI_TN + 8) doubles: there PERI_SPLIT blocks are a cluster.
std::string_view product_plain_text();
std::string_view product_f64_text();
// Kernel peri_join_parts, behind one of these: adds the parts of each sum in order, in the same type.
std::string_view product_join_text();

}  // namespace peri::kernels::cuda
