// What the blocks of a cluster do together, as text: they read each other's dynamic shared memory,
// or store into it. A host's test gives
// the same functions in plain C++.
#pragma once

#include <string_view>

namespace peri::kernels::cuda {

// Functions for sm_90 and later, of a launch with KernelLaunch::cluster (a block's place in its cluster is blockIdx.x
// modulo that). By all threads of the cluster: peri_cluster_arrive() and then peri_cluster_wait(): what any of them
// stored before the first, all of them read behind the second. A block's memory is read by others only between two such
// meetings, the later of which it waits for before it ends.
// By a thread: peri_peer_8(v, at, block), eight neighbours of float32 at a multiple of 16 bytes, and
// peri_peer(at, block), one, of the block of that place; `at` is an address of 32 bits (code/warp.hpp) of its own
// memory. peri_give(at, block, v) stores one there: between a first meeting, by which all have begun, and a second.
std::string_view cluster_text();

}  // namespace peri::kernels::cuda
