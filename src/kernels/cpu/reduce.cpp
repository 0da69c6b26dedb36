// Kernel reduce: every reduction of f32 and f64 over any axes, of integers all except those with a logarithm, extremes
// of bool, and global pooling, row-major.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/cpu/typed/joins.hpp"
#include "ops/reference/reduce.hpp"

namespace peri::kernels {
namespace {
namespace typed = cpu::typed;
// Measured: benchmarks/results/2026-11-22_constants_more.md.
constexpr int64_t kTaskElements = 1 << 15, kColumns = 1024;  // of x that a task reads; of y at once

// The last operation on the reduced value: none, times 1 / n, a root, a logarithm; or the sum of exponentials instead
// of the plain one.
enum class End { kPlain, kMean, kRoot, kLog, kExponentials };
struct Kind {
  std::string_view op;
  typed::Join join;
  End end = End::kPlain;
};
constexpr Kind kKinds[] = {{"reduce_sum", typed::Join::kSum},
                           {"reduce_mean", typed::Join::kSum, End::kMean},
                           {"global_average_pool", typed::Join::kSum, End::kMean},
                           {"reduce_max", typed::Join::kMax},
                           {"global_max_pool", typed::Join::kMax},
                           {"reduce_min", typed::Join::kMin},
                           {"reduce_prod", typed::Join::kProduct},
                           {"reduce_l1", typed::Join::kSumMagnitude},
                           {"reduce_sum_square", typed::Join::kSumSquare},
                           {"reduce_l2", typed::Join::kSumSquare, End::kRoot},
                           {"reduce_log_sum", typed::Join::kSum, End::kLog},
                           {"reduce_log_sum_exp", typed::Join::kMax, End::kExponentials}};

struct Axis {
  int64_t extent, stride;
};
struct Shape {
  const Kind* kind = nullptr;
  DType type = DType::kInvalid;
  std::vector<Axis> kept, joined;  // all but the innermost axis of x
  int64_t run = 1, columns = 1;    // the innermost one: joined, or kept
  int64_t units = 1, parts = 1;    // products of the extents of kept and joined
  int64_t count() const { return parts * run; }
  int64_t blocks() const { return (columns + kColumns - 1) / kColumns; }
  int64_t units_per_task() const {
    return std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, parts * run * std::min(columns, kColumns)));
  }
  int64_t tasks() const { return (units * blocks() + units_per_task() - 1) / units_per_task(); }
};

Result<std::vector<bool>> joined_axes(const ir::Node& n, size_t rank) {
  std::vector<bool> out(rank, false);
  if (n.op.starts_with("global")) {
    for (size_t k = 2; k < rank; ++k) out[k] = true;
    return out;
  }
  if (n.in(1) && !(*n.in(1)->type.shape)[0].is_const(0)) {  // sizes that are known by now
    const ops::InferContext context{n, {}, {}, nullptr};
    PERI_TRY(context.constants(1, "axes"));
  }
  PERI_ASSIGN(const std::vector<int64_t> axes, ops::reduced_axes(n, rank));
  for (int64_t a : axes) out[static_cast<size_t>(a)] = true;
  return out;
}

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  Shape s;
  for (const Kind& k : kKinds)
    if (k.op == n.op) s.kind = &k;
  if (!s.kind) return refused("not a reduction");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  s.type = n.in(0)->type.dtype;
  const bool real = s.type == DType::kF32 || s.type == DType::kF64;
  const bool extreme = s.kind->join == typed::Join::kMax || s.kind->join == typed::Join::kMin;
  if (!real && !(is_integer(s.type) && dtype_bits(s.type) >= 8) && !(s.type == DType::kBool && extreme))
    return refused("elements of %s", dtype_name(s.type).data());
  if (!real && (s.kind->end == End::kLog || s.kind->end == End::kExponentials))
    return refused("%s of integers", n.op.c_str());
  const std::vector<int64_t> d = dims_of(*n.in(0));
  PERI_ASSIGN(const std::vector<bool> joined, joined_axes(n, d.size()));
  // From the innermost axis outwards; neighbours of one kind are one axis.
  std::vector<std::pair<Axis, bool>> merged;
  int64_t stride = 1;
  for (size_t k = d.size(); k-- > 0; stride *= d[k]) {
    if (d[k] == 0) return refused("an empty tensor");
    if (d[k] == 1) continue;
    if (!merged.empty() && merged.back().second == joined[k])
      merged.back().first.extent *= d[k];
    else
      merged.push_back({{d[k], stride}, joined[k]});
  }
  for (size_t k = 0; k < merged.size(); ++k) {
    const auto& [axis, is_joined] = merged[k];
    if (k == 0) {
      (is_joined ? s.run : s.columns) = axis.extent;
      continue;
    }
    (is_joined ? s.joined : s.kept).push_back(axis);
    (is_joined ? s.parts : s.units) *= axis.extent;
  }
  return s;
}

int64_t offset_of(const std::vector<Axis>& axes, int64_t index) {  // innermost first
  int64_t at = 0;
  for (const Axis& a : axes) {
    at += index % a.extent * a.stride;
    index /= a.extent;
  }
  return at;
}

template <class T>
T start_of(typed::Join join) {
  using Limits = std::numeric_limits<T>;
  if (join == typed::Join::kProduct) return 1;
  if (join == typed::Join::kMax) return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  if (join == typed::Join::kMin) return Limits::has_infinity ? Limits::infinity() : Limits::max();
  return 0;
}

template <class T>
T ended(const Shape& s, T v) {
  switch (s.kind->end) {
    case End::kMean:
      if constexpr (std::is_floating_point_v<T>)
        return v / static_cast<T>(s.count());
      else if constexpr (std::is_same_v<T, uint64_t>)
        return v / static_cast<uint64_t>(s.count());
      else
        return static_cast<T>(static_cast<int64_t>(v) / s.count());
    case End::kRoot: {
      if constexpr (std::is_floating_point_v<T>) return static_cast<T>(std::sqrt(static_cast<double>(v)));
      return static_cast<T>(v > 0 ? static_cast<int64_t>(std::sqrt(static_cast<double>(v))) : 0);
    }
    case End::kLog:
      if constexpr (std::is_floating_point_v<T>) return std::log(v);
      return v;
    default: return v;
  }
}

// y holds the largest elements; it becomes their logarithm of the sum of exponentials.
template <class T>
void exponentials(const Shape& s, const T* x, T* y, int64_t columns) {
  if constexpr (std::is_floating_point_v<T>) {
    for (int64_t c = 0; c < columns; ++c) {
      if (!std::isfinite(y[c])) continue;
      T sum = 0;
      for (int64_t k = 0; k < s.parts; ++k) {
        const T* from = x + offset_of(s.joined, k) + c;
        for (int64_t i = 0; i < s.run; ++i) sum += std::exp(from[i] - y[c]);
      }
      y[c] += std::log(sum);
    }
  }
}

// Means of integers of fewer than 64 bits, whose sum need not fit into their type.
template <class T>
void means(const Shape& s, const T* x, T* y, int64_t columns) {
  int64_t sums[kColumns] = {};
  for (int64_t k = 0; k < s.parts; ++k) {
    const T* from = x + offset_of(s.joined, k);
    for (int64_t i = 0; i < std::max(s.run, columns); ++i) sums[s.columns == 1 ? 0 : i] += from[i];
  }
  for (int64_t c = 0; c < columns; ++c) y[c] = static_cast<T>(sums[c] / s.count());
}

template <class T>
void run_task(const Shape& s, const typed::Joins& joins, const void* from, void* to, int64_t task) {
  const int64_t each = s.units_per_task(), end = std::min(s.units * s.blocks(), (task + 1) * each);
  for (int64_t u = task * each; u < end; ++u) {
    const int64_t unit = u / s.blocks(), first = u % s.blocks() * kColumns,
                  columns = std::min(kColumns, s.columns - first);
    const T* x = static_cast<const T*>(from) + offset_of(s.kept, unit) + first;
    T* y = static_cast<T*>(to) + unit * s.columns + first;
    if constexpr (std::is_integral_v<T> && sizeof(T) < 8) {
      if (s.kind->end == End::kMean) {
        means(s, x, y, columns);
        continue;
      }
    }
    std::fill_n(y, columns, start_of<T>(s.kind->join));
    for (int64_t k = 0; k < s.parts; ++k) {
      const T* part = x + offset_of(s.joined, k);
      if (s.columns == 1)
        joins.run(part, s.run, y);
      else
        joins.places(part, columns, y);
    }
    if (s.kind->end == End::kExponentials) exponentials(s, x, y, columns);
    if (s.kind->end != End::kPlain)
      for (int64_t c = 0; c < columns; ++c) y[c] = ended(s, y[c]);
  }
}

using RunTask = void (*)(const Shape& s, const typed::Joins& joins, const void* from, void* to, int64_t task);
struct OfType {
  typed::Elem elem;
  RunTask run;
};
OfType of_type(DType type) {
  switch (type) {
    case DType::kF32: return {typed::Elem::kF32, run_task<float>};
    case DType::kF64: return {typed::Elem::kF64, run_task<double>};
    case DType::kI32: return {typed::Elem::kI32, run_task<int32_t>};
    case DType::kI8: return {typed::Elem::kI8, run_task<int8_t>};
    case DType::kI16: return {typed::Elem::kI16, run_task<int16_t>};
    case DType::kU16: return {typed::Elem::kU16, run_task<uint16_t>};
    case DType::kU32: return {typed::Elem::kU32, run_task<uint32_t>};
    case DType::kU64: return {typed::Elem::kU64, run_task<uint64_t>};
    case DType::kU8: return {typed::Elem::kU8, run_task<uint8_t>};
    case DType::kBool: return {typed::Elem::kBool, run_task<uint8_t>};
    default: return {typed::Elem::kI64, run_task<int64_t>};
  }
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(cpu::best_isa(target));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  const typed::Joins joins = (isa == cpu::Isa::kAvx512 ? typed::avx512::find_joins : typed::avx2::find_joins)(
      s.kind->join, of_type(s.type).elem);
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  if (!x.known()) return refused("reads a value made inside the region");
  const RunTask run = of_type(s.type).run;
  return TaskInstance::make(s.tasks(), 0,
                            [=](int64_t task, const Args& args) { run(s, joins, x.data(args), args.out[0], task); });
}
}  // namespace

extern const Entry reduce_entry;
const Entry reduce_entry{{
    .name = "reduce",
    .version = 3,
    .provider = "peri",
    .takes = "reductions of f32, f64 and integers over any axes, extremes of bool, global pooling",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: f32[3,5,7,130]; const a: i64[2] = [0, 2]; y = reduce_l2(x, a); output y }",
         "graph { input x: i64[5,70,3,90]; const a: i64[2] = [1, 3]; y = reduce_max(x, a); output y }",
         "graph { input x: u8[5,70,3,90]; const a: i64[2] = [1, 3]; y = reduce_min(x, a); output y }",
         "graph { input x: u32[5,70,3,90]; const a: i64[2] = [1, 3]; y = reduce_sum_square(x, a); output y }",
         "graph { input x: i8[5,300]; const a: i64[1] = [1]; y = reduce_mean(x, a); output y }",
         "graph { input x: i8[5,70,3,90]; const a: i64[2] = [0, 2]; y = reduce_mean(x, a); output y }",
         "graph { const x: i32[2,3] = [2147483647, 2147483647, 5, -2147483648, -2147483648, -1]; const a: i64[1] = "
         "[1]; y = reduce_mean(x, a); output y }",
         "graph { input x: u64[5,300,7]; const a: i64[1] = [1]; y = reduce_l2(x, a); output y }",
         "graph { input x: bool[5,70,3,90]; const a: i64[1] = [1]; y = reduce_max(x, a); output y }",
         "graph { input x: f32[3,5]; input none: i64[0]; y = reduce_l1(x, none); output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
