// Cooperation of the blocks of a cluster, as text: they read each other's dynamic shared memory, or store into it. A
// host test defines the same functions in plain C++.
#pragma once

#include <string_view>

namespace peri::kernels::cuda {

// Functions for sm_90 and later, in a launch with KernelLaunch::cluster (a block's rank in its cluster is blockIdx.x
// modulo that). Called by all threads of the cluster: peri_cluster_arrive(), then peri_cluster_wait(): stores before
// the former are visible to all after the latter. A block's memory may be read by others only between two such
// barriers; the block must wait for the second one before it ends. Called by a thread: peri_peer_8(v, at, block) reads
// eight adjacent float32 at a multiple of 16 bytes, and peri_peer(at, block) one, peri_peer_f64(at, block) one float64,
// from the block of that rank; `at` is a 32-bit shared address (code/warp.hpp) of the caller's own memory.
// peri_give(at, block, v) stores one there: between a first barrier, by which all have begun, and a second.
std::string_view cluster_text();

}  // namespace peri::kernels::cuda
