// Kernel arg_max_typed: the index of the extreme element along an axis, of integers and float64.
#include <algorithm>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/rows/extreme.hpp"

namespace peri::kernels {
namespace {
namespace extreme = cpu::extreme;

struct Shape {
  extreme::Lines lines;
  bool largest = true, last = false;
};

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "arg_max" && n.op != "arg_min") return refused("not an arg_max or arg_min");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  const DType type = n.in(0)->type.dtype;
  if (type != DType::kF64 && !(is_integer(type) && dtype_bits(type) >= 8))
    return refused("takes f64 and integers only");
  Shape s;
  PERI_ASSIGN(s.lines, extreme::read_lines(n, 0));
  s.largest = n.op == "arg_max";
  s.last = n.i("select_last_index", 0) != 0;
  return s;
}

// The place in a row of integers: how large first, in lanes, where then.
template <bool Largest, bool Last, class T>
[[gnu::target("avx2")]] int64_t place_in_row(const T* x, int64_t n) {
  constexpr int64_t kLanes = 64 / sizeof(T);
  T lanes[kLanes];
  std::fill_n(lanes, kLanes, x[0]);
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) {
      const T v = x[k + l];
      lanes[l] = (Largest ? v > lanes[l] : v < lanes[l]) ? v : lanes[l];
    }
  T best = lanes[0];
  for (const T v : lanes) best = (Largest ? v > best : v < best) ? v : best;
  for (; k < n; ++k) best = (Largest ? x[k] > best : x[k] < best) ? x[k] : best;
  if constexpr (Last) {
    for (k = n - 1; x[k] != best;) --k;
  } else {
    for (k = 0; x[k] != best;) ++k;
  }
  return k;
}
template <bool Largest, bool Last, class T>
void find_places(const extreme::Lines& s, int64_t task, const T* x, int64_t* to) {
  if constexpr (std::is_integral_v<T>) {
    if (s.inner == 1) {
      const int64_t end = std::min(s.outer, (task + 1) * s.rows_of_task());
      for (int64_t r = task * s.rows_of_task(); r < end; ++r)
        to[r] = place_in_row<Largest, Last>(x + r * s.axis, s.axis);
      return;
    }
  }
  extreme::scan<Largest, Last>(s, task, x, to);
}

template <class F>
TaskInstance::Run by_type(DType t, F f) {
  switch (t) {
    case DType::kF64: return f(double{});
    case DType::kI64: return f(int64_t{});
    case DType::kI32: return f(int32_t{});
    case DType::kI8: return f(int8_t{});
    case DType::kI16: return f(int16_t{});
    case DType::kU16: return f(uint16_t{});
    case DType::kU32: return f(uint32_t{});
    case DType::kU64: return f(uint64_t{});
    default: return f(uint8_t{});
  }
}
template <bool Largest, bool Last>
TaskInstance::Run run_of(DType type, const extreme::Lines& s, Source x) {
  return by_type(type, [&]<class T>(T) -> TaskInstance::Run {
    return [s, x](int64_t task, const Args& args) {
      find_places<Largest, Last>(s, task, static_cast<const T*>(x.data(args)), static_cast<int64_t*>(args.out[0]));
    };
  });
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(cpu::best_isa(target));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  PERI_TRY(cpu::best_isa(*c.target));
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  const auto make = s.largest ? (s.last ? run_of<true, true> : run_of<true, false>)
                              : (s.last ? run_of<false, true> : run_of<false, false>);
  return TaskInstance::make(s.lines.tasks(), 0, make(p.anchor().in(0)->type.dtype, s.lines, x));
}
}  // namespace

extern const Entry arg_max_typed_entry;
const Entry arg_max_typed_entry{{
    .name = "arg_max_typed",
    .version = 2,
    .provider = "peri",
    .takes = "arg_max and arg_min of f64 and integers along one axis",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: i64[5,70]; y = arg_max(x) {axis=1, keepdims=0}; output y }",
                "graph { input x: u8[3,9,33]; y = arg_min(x) {axis=1, keepdims=1, select_last_index=1}; output y }",
                "graph { input x: u32[5,70]; y = arg_max(x) {axis=1}; output y }",
                "graph { input x: i16[3,9,33]; y = arg_min(x) {axis=1}; output y }",
                "graph { input x: f64[7,19]; y = arg_max(x) {axis=-1, select_last_index=1}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
