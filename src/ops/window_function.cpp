// Hann_window, hamming_window, blackman_window: window functions of signal processing, one period of a sum of cosines;
// the first value of a periodic one follows its last.
#include <numbers>

#include "ops/reference/elements.hpp"
#include "ops/shape/content.hpp"

namespace peri::ops {
namespace {
constexpr double kMaxElements = 0x1p40;

// a - b cos(t) + c cos(2t), as the ONNX definitions have them.
struct Terms {
  double a, b, c;
};
constexpr Terms kHann = {0.5, 0.5, 0};
constexpr Terms kHamming = {25.0 / 46.0, 21.0 / 46.0, 0};
constexpr Terms kBlackman = {0.42, 0.5, 0.08};

Status infer(InferContext& c) {
  if (!one_element(c, 0)) return invalid("the size of a window must be a scalar").but_found(shape_text(c.shape(0)));
  const int64_t wanted = c.node.i("output_datatype", static_cast<int64_t>(DType::kF32));
  if (wanted <= 0 || wanted >= kDTypeCount || !contains(kNumbers, static_cast<DType>(wanted)))
    return invalid("a window cannot be of its 'output_datatype'").but_found(std::to_string(wanted));
  const std::vector<Dim>* size = c.known(0);
  if (size && (*size)[0].is_const() && (*size)[0].value() < 0)
    return invalid("a window of %lld elements", static_cast<long long>((*size)[0].value()));
  c.set(0, static_cast<DType>(wanted), {size ? max((*size)[0], Dim(0)) : c.fresh("window")});
  return Ok{};
}

Status reference(RefCall& call, const Terms& w) {
  RefTensor& y = call.out[0];
  const int64_t size = call.in[0]->i[0];
  if (size < 0 || static_cast<double>(size) > kMaxElements)
    return invalid("a window of %lld elements", static_cast<long long>(size));
  PERI_TRY(resize(y, {size}));
  // A symmetric window of one element divides 0 by 0, as the definition does.
  const double period = static_cast<double>(call.node.i("periodic", 1) ? size : size - 1);
  for (int64_t n = 0; n < size; ++n) {
    const size_t at = static_cast<size_t>(n);
    const double angle = 2 * std::numbers::pi * static_cast<double>(n) / period;
    const double v = w.a - w.b * std::cos(angle) + w.c * std::cos(2 * angle);
    if (!y.floating()) {
      y.i[at] = std::isnan(v) ? 0 : static_cast<int64_t>(v + 1e-12);
      continue;
    }
    y.f[at] = v;
    // The angle carries a few roundings, each term one more.
    if (call.u != 0) y.radius[at] = call.u * (4 * angle * (w.b + 2 * w.c) + 4 * (w.a + w.b + w.c));
  }
  return Ok{};
}
template <const Terms& W>
Status window(RefCall& call) {
  return reference(call, W);
}
Cost cost(const ir::Node& node) {
  const double n = numel_of(node.out());
  return {n * 4, 8, n * dtype_bits(node.out()->type.dtype) / 8.0};
}

OpDef window_op(std::string_view name, std::string_view onnx, Status (*reference)(RefCall&),
                std::vector<std::string_view> samples) {
  return {.name = name,
          .onnx = onnx,
          .versions = {17},
          .inputs = {{"size", kIndex}},
          .outputs = {{"y"}},
          .attrs = {{"output_datatype", AttrKind::kType, false, "f32"}, {"periodic", AttrKind::kInt, false, "1"}},
          .infer = infer,
          .reference = reference,
          .cost = cost,
          .samples = std::move(samples)};
}
#define WINDOW_SAMPLES(op)                                                 \
  {"graph { const n: i64[] = [10]; y = " op "(n); output y }",             \
   "graph { const n: i32[] = [9]; y = " op "(n) {periodic=0}; output y }", \
   "graph { const n: i64[1] = [1]; y = " op "(n); output y }",             \
   "graph { const n: i64[] = [0]; y = " op "(n); output y }",              \
   "graph { const n: i64[] = [8]; y = " op "(n) {output_datatype=2}; output y }"}
}  // namespace

extern const Entry window_function_entry;
const Entry window_function_entry{{
    window_op("hann_window", "HannWindow", window<kHann>, WINDOW_SAMPLES("hann_window")),
    window_op("hamming_window", "HammingWindow", window<kHamming>, WINDOW_SAMPLES("hamming_window")),
    window_op("blackman_window", "BlackmanWindow", window<kBlackman>, WINDOW_SAMPLES("blackman_window")),
}};
}  // namespace peri::ops
