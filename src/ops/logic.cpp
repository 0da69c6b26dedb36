// And, or, xor, not on bool.
#include "ops/reference/binary.hpp"

namespace peri::ops {
namespace {
// Truth values are expressions that are 0 or 1.
Dim dim_and(const Dim& a, const Dim& b) { return min(a, b); }
Dim dim_or(const Dim& a, const Dim& b) { return max(a, b); }
Dim dim_xor(const Dim& a, const Dim& b) { return max(a - b, b - a); }
template <auto F>
Status infer(InferContext& c) {
  PERI_TRY(infer_broadcast_bool(c));
  content_elementwise(c, [](const std::vector<Dim>& v) { return std::optional(F(v[0], v[1])); });
  return Ok{};
}
template <auto F>
Status reference(RefCall& call) {
  return int_binary(call, F);
}

template <auto F, auto Sizes>
OpDef logic(std::string_view name, std::string_view onnx, std::vector<std::string_view> samples) {
  return {.name = name,
          .onnx = onnx,
          .versions = {7},
          .inputs = {{"a", kBools}, {"b", kBools}},
          .outputs = {{"y"}},
          .infer = infer<Sizes>,
          .reference = reference<F>,
          .pull = pull_broadcast,
          .elementwise = true,
          .samples = std::move(samples)};
}

Status infer_not(InferContext& c) {
  PERI_TRY(infer_same(c));
  content_elementwise(c, [](const std::vector<Dim>& v) -> std::optional<Dim> { return Dim(1) - v[0]; });
  return Ok{};
}
Status negate(RefCall& call) {
  for (int64_t n = 0; n < call.count(); ++n)
    call.out[0].i[static_cast<size_t>(call.position(n))] = call.in[0]->i[static_cast<size_t>(call.position(n))] == 0;
  return Ok{};
}

int64_t both(int64_t a, int64_t b) { return a && b; }
int64_t either(int64_t a, int64_t b) { return a || b; }
int64_t one(int64_t a, int64_t b) { return (a != 0) != (b != 0); }

#define LOGIC_SAMPLES(op)                                                        \
  {"graph { input a: bool[2,3]; input b: bool[3]; y = " op "(a, b); output y }", \
   "graph { input a: bool[]; input b: bool[4]; y = " op "(a, b); output y }",    \
   "graph { input a: bool[2,0]; input b: bool[2,1]; y = " op "(a, b); output y }"}
}  // namespace

extern const Entry logic_entry;
const Entry logic_entry{{
    logic<both, dim_and>("and", "And", LOGIC_SAMPLES("and")),
    logic<either, dim_or>("or", "Or", LOGIC_SAMPLES("or")),
    logic<one, dim_xor>("xor", "Xor", LOGIC_SAMPLES("xor")),
    {.name = "not",
     .onnx = "Not",
     .versions = {1},
     .inputs = {{"x", kBools}},
     .outputs = {{"y"}},
     .infer = infer_not,
     .reference = negate,
     .pull = pull_same,
     .elementwise = true,
     .samples = {"graph { input x: bool[2,3]; y = not(x); output y }",
                 "graph { input x: bool[]; y = not(x); output y }",
                 "graph { input x: bool[0]; y = not(x); output y }"}},
}};
}  // namespace peri::ops
