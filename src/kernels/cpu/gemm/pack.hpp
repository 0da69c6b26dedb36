// Panels of b as the register tile reads them: [k][panel width], missing columns zero.
#pragma once

#include <cstdint>

namespace peri::kernels::cpu {

// One panel of `width` columns (8, 16 or 32), `columns` of which exist, rows [0, k). b points at the panel's first
// element: b[i * ldb + j], or b[j * ldb + i] if transposed.
void pack_panel(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t columns, int64_t width, float* out);

}  // namespace peri::kernels::cpu
