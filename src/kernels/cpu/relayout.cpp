// Kernel relayout: a four-dimensional tensor of 4-byte elements or bytes between row-major (NCHW) and NHWC, in
// cache-sized tiles.
#include <algorithm>

#include "kernels/entry.hpp"

namespace peri::kernels {
namespace {
constexpr int64_t kTile = 16;  // 16 elements of 4 bytes are a cache line
// Measured: benchmarks/results/2026-11-22_constants_more.md.
constexpr int64_t kTaskElements = 1 << 16;

// out[b][j][i] = in[b][i][j] for `rows` x `cols` matrices.
template <class T>
class RelayoutInstance final : public Instance {
 public:
  RelayoutInstance(int64_t batch, int64_t rows, int64_t cols)
      : Instance(needs_of_tasks(batch * strips_of(rows, cols))),
        rows_(rows),
        cols_(cols),
        strip_(strip_of(rows)),
        strips_(strips_of(rows, cols)) {}
  void run_task(int, int64_t task, const Args& args) const override {
    const int64_t b = task / strips_, first = task % strips_ * strip_, last = std::min(cols_, first + strip_);
    const T* in = static_cast<const T*>(args.in[0]) + b * rows_ * cols_;
    T* out = static_cast<T*>(args.out[0]) + b * rows_ * cols_;
    for (int64_t j0 = first; j0 < last; j0 += kTile)
      for (int64_t i0 = 0; i0 < rows_; i0 += kTile)
        for (int64_t j = j0; j < std::min(last, j0 + kTile); ++j)
          for (int64_t i = i0; i < std::min(rows_, i0 + kTile); ++i) out[j * rows_ + i] = in[i * cols_ + j];
  }

 private:
  static int64_t strip_of(int64_t rows) {
    return std::max<int64_t>(kTile, kTaskElements / std::max<int64_t>(1, rows) / kTile * kTile);
  }
  static int64_t strips_of(int64_t rows, int64_t cols) { return (cols + strip_of(rows) - 1) / strip_of(rows); }
  int64_t rows_, cols_, strip_, strips_;
};

Status check(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "relayout" || p.graph->nodes.size() != 1) return refused("not a change of layout");
  if (p.graph->inputs.size() != 1 || p.graph->inputs[0] != n.in(0)) return refused("takes one argument");
  const int bits = dtype_bits(n.in(0)->type.dtype);
  if ((bits != 32 && bits != 8) || n.in(0)->type.rank() != 4)
    return refused("takes four dimensions of 4-byte elements or bytes");
  const ir::Layout &from = n.in(0)->type.layout, &to = n.out()->type.layout;
  const bool forward = from.row_major() && to == ir::nhwc(), back = from == ir::nhwc() && to.row_major();
  if (!forward && !back) return refused("takes row-major and NHWC only");
  return Ok{};
}

Result<std::vector<Offer>> offer(const Problem& p, const Target&) {
  PERI_TRY(check(p));
  Offer o;
  o.inputs = {p.graph->inputs[0]->type.layout};
  o.outputs = {p.graph->outputs[0]->type.layout};
  return std::vector<Offer>{std::move(o)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext&) {
  PERI_TRY(check(p));
  const std::vector<int64_t> d = dims_of(*p.graph->inputs[0]);
  const bool forward = p.graph->inputs[0]->type.layout.row_major();
  const int64_t rows = forward ? d[1] : d[2] * d[3], cols = forward ? d[2] * d[3] : d[1];
  if (dtype_size(p.graph->inputs[0]->type.dtype) == 1)
    return std::unique_ptr<Instance>(std::make_unique<RelayoutInstance<uint8_t>>(d[0], rows, cols));
  return std::unique_ptr<Instance>(std::make_unique<RelayoutInstance<uint32_t>>(d[0], rows, cols));
}
}  // namespace

extern const Entry relayout_entry;
const Entry relayout_entry{{
    .name = "relayout",
    .version = 1,
    .provider = "peri",
    .takes = "row-major to NHWC and back, 4-byte elements and bytes",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f32[2,3,5,7]; y: f32[2,3,5,7]@0231 = relayout(x); output y }",
                "graph { input x: f32[2,3,5,7]@0231; y: f32[2,3,5,7] = relayout(x); output y }",
                "graph { input x: u8[1,33,9,19]; y: u8[1,33,9,19]@0231 = relayout(x); output y }",
                "graph { input x: i8[2,33,9,19]@0231; y: i8[2,33,9,19] = relayout(x); output y }",
                "graph { input x: i32[1,33,9,19]; y: i32[1,33,9,19]@0231 = relayout(x); output y }",
                "graph { input x: f32[3,80,41,37]@0231; y: f32[3,80,41,37] = relayout(x); output y }",
                "graph { input x: f32[1,70,41,37]; y: f32[1,70,41,37]@0231 = relayout(x); output y }"},
}};

}  // namespace peri::kernels
