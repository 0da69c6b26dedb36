// A block is as long as the greatest common divisor of a frame and its step: frame t is blocks q * t to q * t + r - 1,
// for a step of q blocks and frames of r. Slice k holds block k of every frame, so that r slices joined are the frames.
#include "passes/fourier/frames.hpp"

#include <numeric>

namespace peri::passes {
namespace {

// Elements first, first + stride, ... of axis 1, `count` of them.
Result<ir::Value*> slice_blocks(Rewriter& w, ir::Value* x, int64_t first, int64_t stride, const Dim& count,
                                const ir::Value* like) {
  const Dim end = Dim(first + 1) + (count - Dim(1)) * Dim(stride);
  if (first == 0 && stride == 1 && (*x->type.shape)[1] == end) return x;
  ir::Value* ends = nullptr;
  if (end.is_const()) {
    ends = w.ints({end.value()}, like->name);
  } else {
    PERI_ASSIGN(ends, w.make("dims_constant", {}, {{"value", std::vector<Dim>{end}}}, nullptr));
  }
  return w.make("slice", {x, w.ints({first}, like->name), ends, w.ints({1}, like->name), w.ints({stride}, like->name)},
                {}, like);
}

}  // namespace

Result<ir::Value*> frames_of(Rewriter& w, ir::Value* signal, int64_t length, int64_t step, const Dim& count,
                             const ir::Value* like) {
  const int64_t block = std::gcd(length, step), parts = length / block, apart = step / block;
  const Dim blocks = (count - Dim(1)) * Dim(apart) + Dim(parts);
  PERI_ASSIGN(ir::Value * v, slice_blocks(w, signal, 0, 1, blocks * Dim(block), like));
  PERI_ASSIGN(v, w.reshape(v, {(*signal->type.shape)[0], blocks, Dim(block)}, like));
  std::vector<ir::Value*> slices;
  for (int64_t k = 0; k < parts; ++k) {
    PERI_ASSIGN(ir::Value * slice, slice_blocks(w, v, k, apart, count, like));
    slices.push_back(slice);
  }
  if (parts == 1) return slices[0];
  return w.make("concat", slices, {{"axis", int64_t{2}}}, like);
}

}  // namespace peri::passes
