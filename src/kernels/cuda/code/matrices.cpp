// Batches are broadcast by their coordinates.
#include "kernels/cuda/code/matrices.hpp"

namespace peri::kernels::cuda {

std::string batch_steps(const std::vector<int64_t>& dims, const std::vector<int64_t>& batch, int64_t matrix,
                        Signature* s) {
  std::string out;
  int64_t step = matrix;
  for (size_t k = batch.size(); k-- > 0;) {
    const size_t missing = batch.size() + 2 - dims.size();
    const int64_t own = k >= missing ? dims[k - missing] : 1;
    if (own != 1) out += "  at += rest % " + s->size(batch[k]) + " * " + s->size(step) + ";\n";
    if (k > 0) out += "  rest /= " + s->size(batch[k]) + ";\n";
    step *= own;
  }
  return out;
}

std::string batch_offset(const std::vector<int64_t>& dims, const std::vector<int64_t>& batch, int64_t matrix,
                         Signature* s) {
  return "  PERI_INDEX rest = batch, at = 0;\n" + batch_steps(dims, batch, matrix, s) + "  return at;\n";
}

std::string matrices_text(const std::string& number, const MatrixOperand& a, const MatrixOperand& b) {
  return "PERI_DEVICE PERI_INDEX peri_a_base(const PERI_INDEX batch, PERI_PARAMETERS) {\n" + a.base +
         "}\nPERI_DEVICE PERI_INDEX peri_b_base(const PERI_INDEX batch, PERI_PARAMETERS) {\n" + b.base +
         "}\nPERI_DEVICE " + number +
         " peri_a(const PERI_INDEX base, const PERI_INDEX m, const PERI_INDEX k, "
         "PERI_PARAMETERS) {\n  return " +
         a.element() +
         ";\n}\nstruct peri_column { PERI_INDEX base, n; bool inside; };\n"
         "PERI_DEVICE peri_column peri_column_of(const PERI_INDEX batch, const PERI_INDEX n, PERI_PARAMETERS) {\n"
         "  const peri_column out = {peri_b_base(batch, PERI_PASS), n, n < PERI_N};\n  return out;\n}\n"
         "PERI_DEVICE " +
         number +
         " peri_b(const peri_column& column, const PERI_INDEX k, PERI_PARAMETERS) {\n"
         "  if (!column.inside) return 0;\n  const PERI_INDEX base = column.base, n = column.n;\n  return " +
         b.element() +
         ";\n}\nPERI_DEVICE PERI_INDEX peri_place(const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, "
         "PERI_PARAMETERS) {\n  return (batch * PERI_M + m) * PERI_N + n;\n}\n";
}

}  // namespace peri::kernels::cuda
