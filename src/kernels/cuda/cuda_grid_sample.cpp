// Kernel cuda_grid_sample: grid_sample over any number of axes on a GPU, nearest, linear and cubic, zeros, the border
// or the reflected image outside; one thread per element, places in double, sums in float32.
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/each.hpp"
#include "kernels/cuda/code/entry.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;

// PERI_MODE: 0 nearest, 1 linear, 2 cubic. PERI_OUTSIDE: 0 zeros, 1 the border, 2 reflected. An index below 0 is a
// zero.
constexpr std::string_view kTaps = R"(
struct peri_taps { double first; float t; };  // tap k lies k behind the first
PERI_DEVICE double peri_reflected(const double at, const PERI_INDEX extent) {
  const double low = PERI_ALIGN ? 0.0 : -0.5, high = (double)extent - (PERI_ALIGN ? 1.0 : 0.5), range = high - low;
  if (!(range > 0.0)) return low;
  if (at >= low && at <= high) return at;
  // Whole ranges of what is beyond, by quotients of float32, twice: a division of doubles is a call that keeps registers.
  const double over = at < low ? low - at : at - high;
  double times = floor((double)((float)over / (float)range)), rest = over - times * range;
  const double more = floor((double)((float)rest / (float)range));
  times += more, rest -= more * range;
  if (rest < 0.0) times -= 1.0, rest += range;
  if (rest >= range) times += 1.0, rest -= range;
  const bool even = times == 2.0 * floor(times / 2.0);
  return even == (at < low) ? low + rest : high - rest;
}
PERI_DEVICE PERI_INDEX peri_within(const double at, const PERI_INDEX extent) {
  return at < 0.0 ? 0 : at >= (double)extent ? extent - 1 : (PERI_INDEX)at;
}
PERI_DEVICE PERI_INDEX peri_pixel(const double at, const PERI_INDEX extent) {
  if (PERI_OUTSIDE == 1) return peri_within(at, extent);
  if (PERI_OUTSIDE == 2) return peri_within(trunc(peri_reflected(at, extent)), extent);
  return at >= 0.0 && at < (double)extent ? (PERI_INDEX)at : -1;
}
PERI_DEVICE double peri_place(double v, const PERI_INDEX extent) {
  if (v != v) v = -1.0;
  const double n = (double)extent;
  double at = PERI_ALIGN ? (v + 1.0) / 2.0 * (n - 1.0) : ((v + 1.0) * n - 1.0) / 2.0;
  at = at < -1099511627776.0 ? -1099511627776.0 : at > 1099511627776.0 ? 1099511627776.0 : at;
  if (PERI_MODE == 0) at = rint((double)(float)at);
  const double low = PERI_ALIGN ? 0.0 : -0.5, high = n - (PERI_ALIGN ? 1.0 : 0.5);
  if (at >= low && at <= high) return at;
  if (PERI_OUTSIDE == 1 && PERI_MODE != 2) return at < 0.0 ? 0.0 : at > n - 1.0 ? n - 1.0 : at;
  return PERI_OUTSIDE == 2 ? peri_reflected(at, extent) : at;
}
PERI_DEVICE float peri_near(const float d) { return (1.25f * d - 2.25f) * d * d + 1.0f; }
PERI_DEVICE float peri_far(const float d) { return ((-0.75f * d + 3.75f) * d - 6.0f) * d + 3.0f; }
PERI_DEVICE peri_taps peri_taps_of(const double v, const PERI_INDEX extent) {
  const double at = peri_place(v, extent), base = floor(at);
  peri_taps a;
  a.first = PERI_MODE == 0 ? trunc(at) : PERI_MODE == 1 ? base : base - 1.0;
  a.t = (float)(at - base);
  return a;
}
PERI_DEVICE PERI_INDEX peri_index(const peri_taps& a, const int k, const PERI_INDEX extent) {
  return peri_pixel(a.first + (double)k, extent);
}
PERI_DEVICE float peri_weight(const peri_taps& a, const int k) {
  if (PERI_MODE == 1) return k == 0 ? 1.0f - a.t : a.t;
  const float d = fabsf(a.t + 1.0f - (float)k);
  return k == 1 || k == 2 ? peri_near(d) : peri_far(d);
}
)";

Result<std::vector<KernelLaunch>> plan(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "grid_sample") return refused("not a grid_sample");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  PERI_TRY(cuda::check_row_major(*p.graph));
  const std::string mode = n.s("mode", "linear"), outside = n.s("padding_mode", "zeros");
  const int kind = mode == "nearest" ? 0 : mode == "linear" ? 1 : 2, taps = kind == 0 ? 1 : kind == 1 ? 2 : 4;
  const DType type = n.in(0)->type.dtype, places = n.in(1)->type.dtype;
  if (places == DType::kF64 || (kind != 0 && type == DType::kF64)) return refused("takes f32, f16 and bf16 only");
  const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.out());
  const size_t rank = x.size() - 2;
  if (cuda::elements_of(y) == 0) return std::vector<KernelLaunch>{};
  if (cuda::elements_of(x) == 0) return refused("an image without elements");
  Signature s;
  PERI_ASSIGN(const std::string from, s.value(p, *n.in(0)));
  PERI_ASSIGN(const std::string grid, s.value(p, *n.in(1)));
  PERI_ASSIGN(const std::string to, s.output(p, 0));
  const std::string each = s.size(cuda::elements_of(std::span(y).subspan(2))), channels = s.size(x[1]);
  std::string body = "    const PERI_INDEX place = i / " + each + " / " + channels + " * " + each + " + i % " + each +
                     ";\n",
              loops, ends, at = "i / " + each, weight = "1.0f", inside = "true";
  for (size_t d = 0; d < rank; ++d) {
    const std::string a = "a" + std::to_string(d), k = "k" + std::to_string(d), extent = s.size(x[d + 2]);
    const std::string v = cuda::loaded(places, grid + format("[place * %zu + %zu]", rank, rank - 1 - d));
    body += "    const peri_taps " + a + " = peri_taps_of((double)" + v + ", " + extent + ");\n";
    loops +=
        format("#pragma unroll 1\n    for (int %s = 0; %s < %d; ++%s) {\n", k.c_str(), k.c_str(), taps, k.c_str()) +
        "    const PERI_INDEX at" + std::to_string(d) + " = peri_index(" + a + ", " + k + ", " + extent + ");\n";
    ends += "    }\n";
    at = "(" + at + ") * " + extent + " + at" + std::to_string(d);
    weight += " * peri_weight(" + a + ", " + k + ")";
    inside += " && at" + std::to_string(d) + " >= 0";
  }
  if (kind == 0) {
    PERI_ASSIGN(const std::string stored, cuda::stored_type(type));
    body += "    " + stored + " v = 0;\n" + loops + "    if (" + inside + ") v = " + from + "[" + at + "];\n" + ends +
            "    " + to + "[i] = v;\n";
  } else {
    body += "    float v = 0.0f;\n" + loops + "    if (" + inside + ") v = fmaf(" + weight + ", " +
            cuda::loaded(type, from + "[" + at + "]") + ", v);\n" + ends + "    " + to +
            "[i] = " + cuda::stored(n.out()->type.dtype, "v") + ";\n";
  }
  const int64_t count = cuda::elements_of(y);
  const std::string text = format("#define PERI_MODE %d\n#define PERI_ALIGN %d\n#define PERI_OUTSIDE %d\n", kind,
                                  n.i("align_corners", 0) != 0,
                                  outside == "border"       ? 1
                                  : outside == "reflection" ? 2
                                                            : 0) +
                           std::string(kTaps) + cuda::each_text("peri_grid_sample", s.size(count), body);
  return cuda::each_launch(p, s, "peri_grid_sample", count, text);
}
}  // namespace

extern const Entry cuda_grid_sample_entry;
const Entry cuda_grid_sample_entry =
    cuda::entry_of<plan>("cuda_grid_sample", "grid_sample on a GPU, every mode and padding, any number of axes");

}  // namespace peri::kernels
