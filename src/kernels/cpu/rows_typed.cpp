// Kernel rows_typed: a sum, difference, product or extreme of two integer tensors of which one is broadcast, a row at a
// time: a value broadcast along a row is kept in a register, a broadcast row is read again.
#include <algorithm>
#include <array>
#include <type_traits>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/task_elements.hpp"
#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {
constexpr int64_t kShortRow = 64;  // below it a row costs more than its elements

// Dimensions that can be iterated as one are merged; strides of both operands in elements, 0 where broadcast. The last
// dimension is a row.
struct Shape {
  std::vector<int64_t> dims;
  std::array<std::vector<int64_t>, 2> strides;
  int64_t elements() const {
    int64_t n = 1;
    for (const int64_t d : dims) n *= d;
    return n;
  }
};

Result<std::vector<int64_t>> strides_of(const ir::Value& v, const std::vector<int64_t>& dims) {
  const std::vector<int64_t> have = dims_of(v);
  std::vector<int64_t> out(dims.size(), 0);
  int64_t step = 1;
  for (size_t k = have.size(); k-- > 0; step *= have[k]) {
    const size_t axis = dims.size() - have.size() + k;
    if (have[k] != 1 && have[k] != dims[axis]) return refused("an operand does not broadcast to the result");
    out[axis] = have[k] == 1 ? 0 : step;
  }
  return out;
}

Result<Shape> read(const Problem& p) {
  const ir::Graph& g = *p.graph;
  if (g.nodes.size() != 1 || g.nodes[0]->inputs.size() != 2) return refused("takes one node of two operands");
  const ir::Node& n = *g.nodes[0];
  if (n.op != "add" && n.op != "sub" && n.op != "mul" && n.op != "max" && n.op != "min")
    return refused("takes sums, differences, products and extremes");
  const DType type = n.out()->type.dtype;
  if (type != DType::kI64 && type != DType::kI32) return refused("takes i32 and i64 only");
  const std::vector<int64_t> dims = dims_of(*n.out());
  std::array<std::vector<int64_t>, 2> strides;
  for (size_t k = 0; k < 2; ++k) {
    if (dims_of(*n.in(k)).size() > dims.size()) return refused("an operand has a higher rank than the result");
    PERI_ASSIGN(strides[k], strides_of(*n.in(k), dims));
  }
  Shape s;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0) return refused("an empty result");
    if (dims[d] == 1) continue;
    const bool joins = !s.dims.empty() && s.strides[0].back() == strides[0][d] * dims[d] &&
                       s.strides[1].back() == strides[1][d] * dims[d];
    if (joins) {
      s.dims.back() *= dims[d];
      for (size_t k = 0; k < 2; ++k) s.strides[k].back() = strides[k][d];
    } else {
      s.dims.push_back(dims[d]);
      for (size_t k = 0; k < 2; ++k) s.strides[k].push_back(strides[k][d]);
    }
  }
  if (s.dims.empty()) {
    s.dims = {1};
    s.strides = {std::vector<int64_t>{0}, std::vector<int64_t>{0}};
  }
  return s;
}

enum class Op : uint8_t { kAdd, kSub, kMul, kMax, kMin };
Op op_of(const ir::Node& n) {
  return n.op == "add"   ? Op::kAdd
         : n.op == "sub" ? Op::kSub
         : n.op == "mul" ? Op::kMul
         : n.op == "max" ? Op::kMax
                         : Op::kMin;
}

template <Op kOp, class T>
[[gnu::always_inline]] inline T of(T a, T b) {
  using U = std::make_unsigned_t<T>;  // which wraps
  if constexpr (kOp == Op::kAdd) return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  if constexpr (kOp == Op::kSub) return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
  if constexpr (kOp == Op::kMul) return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  if constexpr (kOp == Op::kMax) return a > b ? a : b;
  return a < b ? a : b;
}

template <Op kOp, class T>
[[gnu::target("avx2")]] void row(const T* a, bool whole_a, const T* b, bool whole_b, T* __restrict y, int64_t n) {
  if (whole_a && whole_b) {
    for (int64_t i = 0; i < n; ++i) y[i] = of<kOp>(a[i], b[i]);
  } else if (whole_a) {
    const T v = *b;
    for (int64_t i = 0; i < n; ++i) y[i] = of<kOp>(a[i], v);
  } else if (whole_b) {
    const T v = *a;
    for (int64_t i = 0; i < n; ++i) y[i] = of<kOp>(v, b[i]);
  } else {
    std::fill_n(y, n, of<kOp>(*a, *b));
  }
}

// Elements [begin, end) of the result.
template <Op kOp, class T>
void run_part(const Shape& s, const void* a, const void* b, void* y, int64_t begin, int64_t end) {
  const size_t last = s.dims.size() - 1;
  while (begin < end) {
    const int64_t first = begin % s.dims[last], n = std::min(s.dims[last] - first, end - begin);
    int64_t rest = begin / s.dims[last], at[2];
    for (size_t side = 0; side < 2; ++side) at[side] = first * s.strides[side][last];
    for (size_t d = last; d-- > 0; rest /= s.dims[d])
      for (size_t side = 0; side < 2; ++side) at[side] += rest % s.dims[d] * s.strides[side][d];
    row<kOp, T>(static_cast<const T*>(a) + at[0], s.strides[0][last] != 0, static_cast<const T*>(b) + at[1],
                s.strides[1][last] != 0, static_cast<T*>(y) + begin, n);
    begin += n;
  }
}

using Run = void (*)(const Shape& s, const void* a, const void* b, void* y, int64_t begin, int64_t end);
template <class T>
Run run_of(Op op) {
  switch (op) {
    case Op::kAdd: return run_part<Op::kAdd, T>;
    case Op::kSub: return run_part<Op::kSub, T>;
    case Op::kMul: return run_part<Op::kMul, T>;
    case Op::kMax: return run_part<Op::kMax, T>;
    default: return run_part<Op::kMin, T>;
  }
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_ASSIGN(const Shape s, read(p));
  PERI_TRY(cpu::best_isa(target));
  // At other sizes it is right too, and no slower than what spreads the repeated side.
  if (s.dims.back() < kShortRow) return refused("rows of less than %lld", static_cast<long long>(kShortRow));
  const bool repeated = std::any_of(s.strides.begin(), s.strides.end(),
                                    [](const auto& own) { return std::find(own.begin(), own.end(), 0) != own.end(); });
  if (!repeated) return refused("no operand is repeated");
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_TRY(cpu::best_isa(*c.target));
  PERI_ASSIGN(const Shape s, read(p));
  const ir::Node& n = *p.graph->nodes[0];
  const Source a = Source::of(p, n.in(0), c.constants), b = Source::of(p, n.in(1), c.constants);
  if (!a.known() || !b.known()) return refused("reads a value made inside the region");
  const Run run = n.out()->type.dtype == DType::kI64 ? run_of<int64_t>(op_of(n)) : run_of<int32_t>(op_of(n));
  // A task of as many bytes as one of float32.
  const int64_t count = s.elements(),
                each = cpu::kTaskElements * 4 / static_cast<int64_t>(dtype_size(n.out()->type.dtype));
  return TaskInstance::make((count + each - 1) / each, 0, [=](int64_t task, const Args& args) {
    run(s, a.data(args), b.data(args), args.out[0], task * each, std::min(count, (task + 1) * each));
  });
}
}  // namespace

extern const Entry rows_typed_entry;
const Entry rows_typed_entry{{
    .name = "rows_typed",
    .version = 1,
    .provider = "peri",
    .takes = "sums, differences, products and extremes of i32 and i64 of which one operand is repeated, in rows of 64 "
             "or more",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input a: i64[3,5,70]; input b: i64[3,5,1]; y = sub(a, b); output y }",
                "graph { input a: i32[3,1,67]; input b: i32[5,67]; y = add(a, b); output y }",
                "graph { input a: i64[4,3,2,33]; const b: i64[] = [7]; y = mul(b, a); output y }",
                "graph { input a: i32[70]; input b: i32[9,1]; y = max(a, b); output y }",
                "graph { input a: i64[2,1]; input b: i64[1,130]; y = min(a, b); output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
