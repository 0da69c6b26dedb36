// Kernel resize_taps: linear, cubic and antialiased resize of f32 along any number of axes, one axis after the other by
// its table of taps, and nearest for any byte-sized type.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/resize_match.hpp"
#include "ops/reference/resample.hpp"

namespace peri::kernels {
namespace {
// Measured: benchmarks/results/2026-11-22_constants_more.md.
constexpr int64_t kTaskElements = 1 << 14;

// One axis of [outer, in, inner] becomes [outer, out, inner].
struct Pass {
  int64_t outer = 1, in = 1, out = 1, inner = 1;
  std::vector<int64_t> index;  // of all taps
  std::vector<float> weight;
  std::vector<size_t> begin;  // out + 1 places in them
  int64_t elements() const { return outer * out * inner; }
  // Rows of `inner` elements where those are many, else all places of the axis.
  int64_t row() const { return inner >= 8 ? inner : out * inner; }
  int64_t rows_per_task() const { return std::max<int64_t>(1, kTaskElements / row()); }
  int64_t tasks() const {
    const int64_t rows = elements() / row();
    return (rows + rows_per_task() - 1) / rows_per_task();
  }
};

struct Plan {
  std::vector<Pass> passes;
  bool nearest = false;
  int bytes = 4;
  size_t middle_bytes = 0;  // of each of two results between passes
};

// A row of `inner` neighbours from the taps of place o.
void blend_row(const Pass& p, const float* x, int64_t o, float* y) {
  const size_t begin = p.begin[static_cast<size_t>(o)], end = p.begin[static_cast<size_t>(o) + 1];
  const float* const first = x + p.index[begin] * p.inner;
  const float w = p.weight[begin];
  if (end - begin == 1 && w == 1) {
    std::copy_n(first, p.inner, y);
    return;
  }
  for (int64_t i = 0; i < p.inner; ++i) y[i] = w * first[i];
  for (size_t t = begin + 1; t < end; ++t) {
    const float* const from = x + p.index[t] * p.inner;
    const float v = p.weight[t];
    for (int64_t i = 0; i < p.inner; ++i) y[i] += v * from[i];
  }
}
void blend_line(const Pass& p, const float* x, float* y) {
  for (int64_t o = 0; o < p.out; ++o) {
    const size_t begin = p.begin[static_cast<size_t>(o)], end = p.begin[static_cast<size_t>(o) + 1];
    for (int64_t i = 0; i < p.inner; ++i) {
      float sum = 0;
      for (size_t t = begin; t < end; ++t) sum += p.weight[t] * x[p.index[t] * p.inner + i];
      y[o * p.inner + i] = sum;
    }
  }
}
template <class T>
void pick_line(const Pass& p, const T* x, T* y) {
  if (p.inner == 1) {
    for (int64_t o = 0; o < p.out; ++o) y[o] = x[p.index[static_cast<size_t>(o)]];
    return;
  }
  for (int64_t o = 0; o < p.out; ++o)
    for (int64_t i = 0; i < p.inner; ++i) y[o * p.inner + i] = x[p.index[static_cast<size_t>(o)] * p.inner + i];
}

template <class T>
void pick(const Pass& p, const void* from, void* to, int64_t row) {
  const T* x = static_cast<const T*>(from);
  T* y = static_cast<T*>(to) + row * p.row();
  if (p.inner < 8) return pick_line(p, x + row * p.in * p.inner, y);
  const int64_t o = row % p.out;
  std::copy_n(x + (row / p.out * p.in + p.index[static_cast<size_t>(o)]) * p.inner, p.inner, y);
}
void blend(const Pass& p, const void* from, void* to, int64_t row) {
  const float* x = static_cast<const float*>(from);
  float* y = static_cast<float*>(to) + row * p.row();
  if (p.inner < 8) return blend_line(p, x + row * p.in * p.inner, y);
  blend_row(p, x + row / p.out * p.in * p.inner, row % p.out, y);
}

void run_rows(const Plan& plan, const Pass& p, const void* from, void* to, int64_t task) {
  const int64_t rows = p.elements() / p.row(), end = std::min(rows, (task + 1) * p.rows_per_task());
  for (int64_t row = task * p.rows_per_task(); row < end; ++row) {
    if (!plan.nearest)
      blend(p, from, to, row);
    else if (plan.bytes == 1)
      pick<uint8_t>(p, from, to, row);
    else if (plan.bytes == 2)
      pick<uint16_t>(p, from, to, row);
    else if (plan.bytes == 4)
      pick<uint32_t>(p, from, to, row);
    else
      pick<uint64_t>(p, from, to, row);
  }
}

Result<Plan> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "resize") return refused("not a resize");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  PERI_ASSIGN(const ops::Sampling sampling, ops::sampling_of(n));
  Plan plan;
  plan.nearest = sampling.mode == "nearest";
  const DType type = n.in(0)->type.dtype;
  plan.bytes = dtype_size(type);
  if (!plan.nearest && type != DType::kF32) return refused("takes f32 only");
  if (plan.bytes == 0 || plan.bytes > 8) return refused("elements of %s", dtype_name(type).data());
  const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.out());
  for (size_t k = 0; k < x.size(); ++k)
    if (x[k] == 0 || y[k] == 0 || x[k] > kMaxResizeExtent || y[k] > kMaxResizeExtent)
      return refused("an empty tensor, or an axis of more than %lld places", static_cast<long long>(kMaxResizeExtent));
  PERI_ASSIGN(const std::vector<ops::AxisGeometry> geometry, resize_geometry(n, x, y));
  // At sizes where no axis changes, the last one is read as it is.
  const bool still = std::all_of(geometry.begin(), geometry.end(), [](const auto& g) { return g.whole; });
  std::vector<int64_t> dims = x;
  for (size_t k = 0; k < dims.size(); ++k) {
    if (geometry[k].whole && !(still && k + 1 == dims.size())) continue;
    const ops::AxisTaps taps = ops::axis_taps(sampling, geometry[k]);
    if (std::any_of(taps.outside.begin(), taps.outside.end(), [](char c) { return c != 0; }))
      return refused("places outside");
    Pass pass;
    for (size_t d = 0; d < dims.size(); ++d) (d < k ? pass.outer : d == k ? pass.in : pass.inner) *= dims[d];
    pass.out = dims[k] = y[k];
    pass.begin = taps.begin;
    for (const ops::Tap& t : taps.taps) {
      pass.index.push_back(t.index);
      pass.weight.push_back(static_cast<float>(t.weight));
    }
    plan.passes.push_back(std::move(pass));
  }
  if (plan.passes.empty()) return refused("resizes a scalar");
  for (size_t k = 0; k + 1 < plan.passes.size(); ++k)
    plan.middle_bytes =
        std::max(plan.middle_bytes, static_cast<size_t>(plan.passes[k].elements() * plan.bytes + 63) / 64 * 64);
  return plan;
}

class TapsInstance final : public Instance {
 public:
  TapsInstance(Plan plan, Source x) : Instance(needs_of(plan)), plan_(std::move(plan)), x_(std::move(x)) {}
  void run_task(int phase, int64_t task, const Args& args) const override {
    const auto middle = [&](int k) { return args.workspace + static_cast<size_t>(k % 2) * plan_.middle_bytes; };
    const void* from = phase == 0 ? x_.data(args) : middle(phase - 1);
    void* to = phase + 1 == phases() ? args.out[0] : middle(phase);
    run_rows(plan_, plan_.passes[static_cast<size_t>(phase)], from, to, task);
  }

 private:
  static Needs needs_of(const Plan& plan) {
    Needs out{2 * plan.middle_bytes, 0, {}, {}};
    for (const auto& pass : plan.passes) out.tasks.push_back(pass.tasks());
    return out;
  }
  Plan plan_;
  Source x_;
};

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(Plan plan, read(p));
  Source x = Source::of(p, p.anchor().in(0), c.constants);
  if (!x.known()) return refused("reads a value made inside the region");
  return std::unique_ptr<Instance>(std::make_unique<TapsInstance>(std::move(plan), std::move(x)));
}
}  // namespace

extern const Entry resize_taps_entry;
const Entry resize_taps_entry{{
    .name = "resize_taps",
    .version = 1,
    .provider = "peri",
    .takes = "resize of any number of axes: linear, cubic and antialiased of f32, nearest of any byte-sized type",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .takes_constants = true,
}};

}  // namespace peri::kernels
