// Kernel scan: running sums and products along one axis, inclusive or exclusive, from either end.
#include <algorithm>

#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {
// Measured: benchmarks/results/2026-11-22_constants_more.md.
constexpr int64_t kTaskElements = 1 << 14, kColumns = 256;

struct Shape {
  DType type = DType::kInvalid;
  int64_t outer = 1, axis = 1, inner = 1;
  bool product = false, exclusive = false, reverse = false;
  int64_t columns() const { return (inner + kColumns - 1) / kColumns; }
  int64_t lines_per_task() const { return std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, axis)); }
  int64_t tasks() const { return inner == 1 ? (outer + lines_per_task() - 1) / lines_per_task() : outer * columns(); }
};

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "cum_sum" && n.op != "cum_prod") return refused("not a running sum or product");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  Shape s;
  s.type = n.in(0)->type.dtype;
  if (s.type != DType::kF32 && s.type != DType::kF64 && !(is_integer(s.type) && dtype_bits(s.type) >= 8))
    return refused("elements of %s", dtype_name(s.type).data());
  const ops::InferContext context{n, {}, {}, nullptr};
  PERI_ASSIGN(const std::vector<int64_t> axes, context.constants(1, "axis"));
  const std::vector<int64_t> d = dims_of(*n.in(0));
  const int64_t rank = static_cast<int64_t>(d.size());
  if (axes.size() != 1 || axes[0] < -rank || axes[0] >= rank) return refused("a bad axis");
  const int64_t axis = axes[0] < 0 ? axes[0] + rank : axes[0];
  for (int64_t k = 0; k < rank; ++k) (k < axis ? s.outer : k == axis ? s.axis : s.inner) *= d[static_cast<size_t>(k)];
  if (s.outer * s.axis * s.inner == 0) return refused("an empty tensor");
  s.product = n.op == "cum_prod";
  s.exclusive = n.i("exclusive") != 0;
  s.reverse = n.i("reverse") != 0;
  return s;
}

// Integers wrap, in the unsigned type.
template <bool kProduct, class T>
T step(T a, T b) {
  if constexpr (sizeof(T) < 4) return static_cast<T>(step<kProduct, uint32_t>(a, b));
  return kProduct ? a * b : a + b;
}

// `count` neighbouring lines, whose elements are a row apart: each row of results is made of the one before.
template <bool kProduct, class T>
void scan_columns(const Shape& s, const T* x, T* y, int64_t count) {
  const int64_t next = s.reverse ? -s.inner : s.inner, first = s.reverse ? (s.axis - 1) * s.inner : 0;
  const T* __restrict from = x + first;
  T* to = y + first;
  if (s.exclusive)
    std::fill_n(to, count, static_cast<T>(kProduct));
  else
    std::copy_n(from, count, to);
  for (int64_t k = 1; k < s.axis; ++k) {
    const T* __restrict before = to;
    const T* __restrict own = s.exclusive ? from : from + next;
    from += next;
    to += next;
    T* __restrict made = to;
    for (int64_t c = 0; c < count; ++c) made[c] = step<kProduct>(before[c], own[c]);
  }
}
template <bool kProduct, class T>
void scan_line(const Shape& s, const T* x, T* y) {
  T run = static_cast<T>(kProduct);
  for (int64_t k = 0; k < s.axis; ++k) {
    const int64_t at = s.reverse ? s.axis - 1 - k : k;
    const T v = x[at];
    if (s.exclusive) y[at] = run;
    run = step<kProduct>(run, v);
    if (!s.exclusive) y[at] = run;
  }
}

template <bool kProduct, class T>
void run_task(const Shape& s, const void* from, void* to, int64_t task) {
  const T* x = static_cast<const T*>(from);
  T* y = static_cast<T*>(to);
  if (s.inner == 1) {
    const int64_t each = s.lines_per_task(), end = std::min(s.outer, (task + 1) * each);
    for (int64_t line = task * each; line < end; ++line) scan_line<kProduct>(s, x + line * s.axis, y + line * s.axis);
    return;
  }
  const int64_t first = task % s.columns() * kColumns, at = task / s.columns() * s.axis * s.inner + first;
  scan_columns<kProduct>(s, x + at, y + at, std::min(kColumns, s.inner - first));
}

template <bool kProduct>
auto task_of(DType type) {
  if (type == DType::kF32) return run_task<kProduct, float>;
  if (type == DType::kF64) return run_task<kProduct, double>;
  switch (dtype_size(type)) {
    case 1: return run_task<kProduct, uint8_t>;
    case 2: return run_task<kProduct, uint16_t>;
    case 4: return run_task<kProduct, uint32_t>;
    default: return run_task<kProduct, uint64_t>;
  }
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  if (!x.known()) return refused("reads a value made inside the region");
  const auto run = s.product ? task_of<true>(s.type) : task_of<false>(s.type);
  return TaskInstance::make(s.tasks(), 0,
                            [s, x, run](int64_t task, const Args& args) { run(s, x.data(args), args.out[0], task); });
}
}  // namespace

extern const Entry scan_entry;
const Entry scan_entry{{
    .name = "scan",
    .version = 2,
    .provider = "peri",
    .takes = "running sums and products of f32, f64 and integers along one axis",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f32[3,50,600]; const a: i64[] = [1]; y = cum_sum(x, a) {reverse=1}; output y }",
                "graph { input x: i64[300,80]; const a: i64[] = [1]; y = cum_sum(x, a) {exclusive=1}; output y }",
                "graph { input x: u32[300,80]; const a: i64[] = [1]; y = cum_prod(x, a); output y }",
                "graph { input x: u16[30,8]; const a: i64[] = [0]; y = cum_prod(x, a); output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
