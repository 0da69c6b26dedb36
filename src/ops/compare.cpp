// Equal, greater, less and their or-equal forms: bool, exact in the type of the inputs; comparisons with NaN are false.
#include "ops/reference/binary.hpp"

namespace peri::ops {
namespace {
enum class Relation { kEqual, kGreater, kLess, kGreaterOrEqual, kLessOrEqual };

// Answer of a relation from a < b, b < a and a == b (all false: unordered).
bool answer(Relation r, bool below, bool above, bool same) {
  switch (r) {
    case Relation::kEqual: return same;
    case Relation::kGreater: return above;
    case Relation::kLess: return below;
    case Relation::kGreaterOrEqual: return above || same;
    case Relation::kLessOrEqual: return below || same;
  }
  return false;
}

template <Relation R>
Status reference(RefCall& call) {
  const RefTensor &a = *call.in[0], &b = *call.in[1];
  RefTensor& y = call.out[0];
  const Under under_a(a.dims, y.dims), under_b(b.dims, y.dims);
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t p = call.position(n);
    const size_t pa = static_cast<size_t>(under_a(p)), pb = static_cast<size_t>(under_b(p));
    bool out = false;
    if (a.dtype == DType::kString)
      out = answer(R, a.s[pa] < b.s[pb], b.s[pb] < a.s[pa], a.s[pa] == b.s[pb]);
    else if (a.floating())
      out = answer(R, a.f[pa] < b.f[pb], b.f[pb] < a.f[pa], a.f[pa] == b.f[pb]);
    else
      out = answer(R, int_less(a.dtype, a.i[pa], b.i[pb]), int_less(a.dtype, b.i[pb], a.i[pa]), a.i[pa] == b.i[pb]);
    y.i[static_cast<size_t>(p)] = out;
  }
  return Ok{};
}

template <Relation R>
Status infer(InferContext& c) {
  PERI_TRY(infer_broadcast_bool(c));
  content_elementwise(c, [](const std::vector<Dim>& v) -> std::optional<Dim> {
    if (R == Relation::kEqual) return is_equal(v[0], v[1]);
    if (R == Relation::kLess) return is_less(v[0], v[1]);
    if (R == Relation::kGreater) return is_less(v[1], v[0]);
    if (R == Relation::kLessOrEqual) return Dim(1) - is_less(v[1], v[0]);
    return Dim(1) - is_less(v[0], v[1]);
  });
  return Ok{};
}

template <Relation R>
OpDef relation(std::string_view name, std::string_view onnx, std::vector<int> versions,
               std::vector<std::string_view> samples) {
  const TypeSet in = R == Relation::kEqual ? kNumbers | types({DType::kBool, DType::kString}) : kNumbers;
  return {.name = name,
          .onnx = onnx,
          .versions = std::move(versions),
          .inputs = {{"a", in}, {"b", in, false, false, 0}},
          .outputs = {{"y"}},
          .infer = infer<R>,
          .reference = reference<R>,
          .pull = pull_broadcast,
          .jumps = true,
          .elementwise = true,
          .samples = std::move(samples)};
}

#define COMPARE_SAMPLES(op)                                                                                            \
  "graph { input a: f32[2,3]; input b: f32[3]; y = " op "(a, b); output y }",                                          \
      "graph { input a: i32[2,1]; input b: i32[1,3]; y = " op "(a, b); output y }",                                    \
      "graph { input a: f16[0]; input b: f16[]; y = " op "(a, b); output y }",                                         \
      "graph { const a: u64[3] = [18446744073709551615, 5, 7]; const b: u64[3] = [2, 7, 7]; y = " op                   \
      "(a, b); output y }",                                                                                            \
      "graph { const a: f32[6] = [nan, nan, inf, -0.0, 1.0, -inf]; const b: f32[6] = [nan, 1.0, inf, 0.0, 2.0, inf]; " \
      "y = " op "(a, b); output y }"
}  // namespace

extern const Entry compare_entry;
const Entry compare_entry{{
    relation<Relation::kEqual>(
        "equal", "Equal", {7, 11, 13, 19},
        {COMPARE_SAMPLES("equal"),
         "graph { const a: string[3] = [\"a\", \"\", \"b\"]; const b: string[1] = [\"a\"]; y = equal(a, b); output y }",
         "graph { input a: bool[5]; input b: bool[5]; y = equal(a, b); output y }"}),
    relation<Relation::kGreater>("greater", "Greater", {7, 9, 13}, {COMPARE_SAMPLES("greater")}),
    relation<Relation::kLess>("less", "Less", {7, 9, 13}, {COMPARE_SAMPLES("less")}),
    relation<Relation::kGreaterOrEqual>("greater_or_equal", "GreaterOrEqual", {12, 16},
                                        {COMPARE_SAMPLES("greater_or_equal")}),
    relation<Relation::kLessOrEqual>("less_or_equal", "LessOrEqual", {12, 16}, {COMPARE_SAMPLES("less_or_equal")}),
}};
}  // namespace peri::ops
