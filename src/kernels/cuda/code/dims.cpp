// Products and bounds.
#include "kernels/cuda/code/dims.hpp"

#include <algorithm>

namespace peri::kernels::cuda {

int64_t elements_of(std::span<const int64_t> dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

int64_t numel_of(const ir::Value& v) { return elements_of(dims_of(v)); }

Result<size_t> axis_within(int64_t axis, size_t rank) {
  const auto end = static_cast<int64_t>(rank);
  if (axis < -end || axis >= end) return refused("a bad axis").but_found(std::to_string(axis));
  return static_cast<size_t>(axis < 0 ? axis + end : axis);
}

Status check_row_major(const ir::Graph& g) {
  for (const auto* list : {&g.inputs, &g.outputs})
    for (const ir::Value* v : *list)
      if (!v->type.layout.row_major()) return refused("takes and makes row-major tensors only");
  return Ok{};
}

Result<MatmulDims> matmul_dims(const ir::Node& matmul) {
  return matmul_dims_of(dims_of(*matmul.in(0)), dims_of(*matmul.in(1)));
}

Result<MatmulDims> matmul_dims_of(std::vector<int64_t> left, std::vector<int64_t> right) {
  MatmulDims out;
  out.x = std::move(left);
  out.w = std::move(right);
  if (out.x.empty() || out.w.empty()) return refused("a scalar operand");
  if (out.x.size() == 1) out.x.insert(out.x.begin(), 1);
  if (out.w.size() == 1) out.w.push_back(1);
  out.m = out.x[out.x.size() - 2];
  out.k = out.x.back();
  out.n = out.w.back();
  if (elements_of(std::span(out.w).first(out.w.size() - 2)) == 1) {
    for (size_t k = 0; k + 2 < out.x.size(); ++k) out.m *= out.x[k];
    out.x = {out.m, out.k};
    out.w = {out.k, out.n};
  }
  out.batch.assign(std::max(out.x.size(), out.w.size()) - 2, 1);
  for (size_t k = 0; k < out.batch.size(); ++k) {
    const size_t of_x = out.batch.size() + 2 - out.x.size(), of_w = out.batch.size() + 2 - out.w.size();
    const int64_t dx = k >= of_x ? out.x[k - of_x] : 1, dw = k >= of_w ? out.w[k - of_w] : 1;
    out.batch[k] = dx == 1 ? dw : dx;
    out.batches *= out.batch[k];
  }
  return out;
}

}  // namespace peri::kernels::cuda
