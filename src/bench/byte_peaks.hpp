// Sustained rates of this machine for products of bytes: tiles (AMX), vectors of four products per lane (VNNI), pairs.
#pragma once

#include "base/thread_pool.hpp"

namespace peri::bench {

// Operations in 1e9 a second, two per multiply-add of 8-bit integers, of the widest units of the machine; 0: it has
// none of them. Takes about `seconds`.
double best_byte_gops(ThreadPool& pool, double seconds);

}  // namespace peri::bench
