// Kernel arg_max_f32: the index of the extreme element along an axis, as the definition has it for NaN and equals; rows
// are scanned in lanes, other axes in blocks of neighbouring columns.
#include <algorithm>
#include <limits>

#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {
// Rests on: benchmarks/results/2026-11-22_constants.md.
constexpr int64_t kLanes = 16, kColumns = 1024, kTaskElements = 1 << 15;

struct Shape {
  int64_t outer = 1, axis = 1, inner = 1;
  bool largest = true, last = false;
};

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "arg_max" && n.op != "arg_min") return refused("not an arg_max or arg_min");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only");
  const std::vector<int64_t> d = dims_of(*n.in(0));
  int64_t axis = n.i("axis", 0);
  if (axis < 0) axis += static_cast<int64_t>(d.size());
  if (axis < 0 || axis >= static_cast<int64_t>(d.size())) return refused("an axis out of range");
  Shape s;
  for (int64_t k = 0; k < static_cast<int64_t>(d.size()); ++k)
    (k < axis ? s.outer : k == axis ? s.axis : s.inner) *= d[static_cast<size_t>(k)];
  if (s.outer * s.axis * s.inner == 0) return refused("an empty tensor");
  if (s.axis > std::numeric_limits<int32_t>::max())
    return refused("an axis of %lld elements", static_cast<long long>(s.axis));
  s.largest = n.op == "arg_max";
  s.last = n.i("select_last_index", 0) != 0;
  return s;
}

// Whether a later element takes the place of the one held: more extreme, or equal where the last one counts. NaN is the
// most extreme of all.
template <bool Largest, bool Last>
bool takes(float later, float held) {
  const bool beyond = Largest ? later > held : later < held;
  // Without branches, so that lanes go side by side.
  if constexpr (Last) return beyond | (later == held) | (later != later);
  return beyond | ((later != later) & (held == held));
}

// Brings held elements up to date with those of row `k`.
template <bool Largest, bool Last>
void advance(const float* x, int32_t k, int64_t count, float* best, int32_t* at) {
  for (int64_t l = 0; l < count; ++l) {
    const bool take = takes<Largest, Last>(x[l], best[l]);
    best[l] = take ? x[l] : best[l];
    at[l] = take ? k : at[l];
  }
}

// One row as rows of kLanes elements: each lane holds its best, then the best of the lanes.
template <bool Largest, bool Last>
int64_t scan_row(const float* x, int64_t n) {
  float best[kLanes];
  int32_t at[kLanes] = {};
  const int64_t lanes = std::min(n, kLanes);
  std::copy_n(x, lanes, best);
  int64_t k = 1;
  for (; (k + 1) * kLanes <= n; ++k) advance<Largest, Last>(x + k * kLanes, static_cast<int32_t>(k), kLanes, best, at);
  if (k * kLanes < n) advance<Largest, Last>(x + k * kLanes, static_cast<int32_t>(k), n - k * kLanes, best, at);
  const auto index = [&](int64_t l) { return at[l] * kLanes + l; };
  int64_t winner = 0;
  for (int64_t l = 1; l < lanes; ++l) {
    const bool replace = index(l) > index(winner) ? takes<Largest, Last>(best[l], best[winner])
                                                  : !takes<Largest, Last>(best[winner], best[l]);
    if (replace) winner = l;
  }
  return index(winner);
}

// Up to kColumns neighbouring columns of a matrix with `stride` elements a row.
template <bool Largest, bool Last>
void scan_columns(const float* x, int64_t rows, int64_t stride, int64_t columns, int64_t* y) {
  float best[kColumns];
  int32_t at[kColumns];
  std::copy_n(x, columns, best);
  std::fill_n(at, columns, 0);
  for (int64_t k = 1; k < rows; ++k) {
    const float* row = x + k * stride;
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes)
      advance<Largest, Last>(row + c, static_cast<int32_t>(k), kLanes, best + c, at + c);
    advance<Largest, Last>(row + c, static_cast<int32_t>(k), columns - c, best + c, at + c);
  }
  std::copy_n(at, columns, y);
}

template <bool Largest, bool Last>
TaskInstance::Run run_of(const Shape& s, int64_t rows_per_task, Source x) {
  if (s.inner == 1)
    return [s, rows_per_task, x](int64_t task, const Args& args) {
      const int64_t end = std::min(s.outer, (task + 1) * rows_per_task);
      for (int64_t r = task * rows_per_task; r < end; ++r)
        static_cast<int64_t*>(args.out[0])[r] = scan_row<Largest, Last>(x.f32(args) + r * s.axis, s.axis);
    };
  return [s, x](int64_t task, const Args& args) {
    const int64_t blocks = (s.inner + kColumns - 1) / kColumns, o = task / blocks, c = task % blocks * kColumns;
    scan_columns<Largest, Last>(x.f32(args) + o * s.axis * s.inner + c, s.axis, s.inner,
                                std::min(kColumns, s.inner - c), static_cast<int64_t*>(args.out[0]) + o * s.inner + c);
  };
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  const int64_t rows = std::max<int64_t>(1, kTaskElements / s.axis);
  const int64_t tasks = s.inner == 1 ? (s.outer + rows - 1) / rows : s.outer * ((s.inner + kColumns - 1) / kColumns);
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  const auto make = s.largest ? (s.last ? run_of<true, true> : run_of<true, false>)
                              : (s.last ? run_of<false, true> : run_of<false, false>);
  return TaskInstance::make(tasks, 0, make(s, rows, x));
}
}  // namespace

extern const Entry arg_max_f32_entry;
const Entry arg_max_f32_entry{{
    .name = "arg_max_f32",
    .version = 1,
    .provider = "peri",
    .takes = "arg_max and arg_min of f32 along one axis",
    .offer = offer,
    .instantiate = instantiate,
    .takes_constants = true,
}};

}  // namespace peri::kernels
