// BitCast: the bits of every element reinterpreted as another type of the same width. NaNs stay NaNs; a signalling one
// becomes quiet where it passes through a wider float.
#include "ops/reference/elements.hpp"
#include "ops/reference/unary.hpp"

namespace peri::ops {
namespace {

Status infer(InferContext& c) {
  const int64_t code = c.node.i("to");
  const DType to = static_cast<DType>(code);
  if (code <= 0 || code >= kDTypeCount || !contains(kMovable, to) || to == DType::kString)
    return invalid("bit_cast has an unknown type 'to'").but_found(std::to_string(code));
  if (dtype_bits(to) != dtype_bits(c.dtype(0)))
    return invalid("the types of bit_cast differ in width")
        .expecting(format("a type of %d bits", dtype_bits(c.dtype(0))))
        .but_found(std::string(dtype_name(to)));
  c.set(0, to, c.shape(0));
  return Ok{};
}

Status reference(RefCall& call) {
  const Tensor x = from_ref(*call.in[0]);
  PERI_ASSIGN(const Tensor y, Tensor::view(call.out[0].dtype, x.dims(), x.bytes(), nullptr));
  RefTensor out = to_ref(y);
  call.out[0].f = std::move(out.f);
  call.out[0].i = std::move(out.i);
  return Ok{};
}

constexpr TypeSet kBits = kMovable & ~types({DType::kString});

}  // namespace

extern const Entry bit_cast_entry;
const Entry bit_cast_entry{{
    {.name = "bit_cast",
     .onnx = "BitCast",
     .versions = {26},
     .inputs = {{"x", kBits}},
     .outputs = {{"y"}},
     .attrs = {{"to", AttrKind::kType, true}},
     .infer = infer,
     .reference = reference,
     .pull = pull_same,
     .cost = cost_view,
     .jumps = true,
     .samples = {"graph { const x: f32[3] = [1.0, -2.5, inf]; y = bit_cast(x) {to=13}; output y }",
                 "graph { input x: i64[2,3]; y = bit_cast(x) {to=2}; output y }",
                 "graph { input x: u16[4]; y = bit_cast(x) {to=4}; output y }",
                 "graph { input x: f16[]; y = bit_cast(x) {to=12}; output y }",
                 "graph { input x: i4[5]; y = bit_cast(x) {to=20}; output y }",
                 "graph { input x: bool[3]; y = bit_cast(x) {to=15}; output y }",
                 "graph { input x: u32[0,2]; y = bit_cast(x) {to=1}; output y }"}},
}};
}  // namespace peri::ops
