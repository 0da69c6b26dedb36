// Kernel cuda_resize: resampling of any axes on a GPU, nearest, linear and cubic, every coordinate convention, with the
// element-wise chain after it; one result per thread, or eight adjacent ones of a row, coordinates and weights in
// float32.
#include <algorithm>
#include <bit>
#include <numeric>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/each.hpp"
#include "kernels/cuda/code/entry.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;

// An axis that is resized. `start` and `end` are the region of interest.
struct Axis {
  size_t at = 0;
  double scale = 1, start = 0, end = 1;
};

bool given(const ir::Node& n, size_t port) {
  const ir::Value* v = n.in(port);
  return v && !(v->type.shape->size() == 1 && v->type.shape->front().is_const(0));
}

Result<std::vector<Axis>> axes_of(const ir::Node& n, const std::vector<int64_t>& x, const std::vector<int64_t>& y) {
  std::vector<int64_t> all(x.size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<int64_t> axes = n.has("axes") ? n.ints("axes") : all;
  const bool crop = n.s("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize";
  const ir::Value *scales = given(n, 2) ? n.in(2) : nullptr, *roi = crop ? n.in(1) : nullptr;
  if (!scales && n.s("keep_aspect_ratio_policy", "stretch") != "stretch") return refused("a kept aspect ratio");
  if ((scales && !scales->constant) || (roi && !roi->constant)) return refused("scales or a roi that are not constant");
  std::vector<Axis> out;
  for (size_t k = 0; k < axes.size(); ++k) {
    Axis a;
    a.at = static_cast<size_t>(axes[k] < 0 ? axes[k] + static_cast<int64_t>(x.size()) : axes[k]);
    if (a.at >= x.size()) return refused("a bad axis");
    const int64_t place = static_cast<int64_t>(k);
    a.scale = scales ? scales->constant->f64(place)
                     : static_cast<double>(y[a.at]) / static_cast<double>(std::max<int64_t>(x[a.at], 1));
    if (!(a.scale > 0)) return refused("a bad scale");
    if (roi) {
      a.start = roi->constant->f64(place);
      a.end = roi->constant->f64(place + static_cast<int64_t>(axes.size()));
    }
    if (a.scale != 1 || x[a.at] != y[a.at] || roi) out.push_back(a);
  }
  return out;
}

constexpr std::string_view kCoordinates[] = {"half_pixel",         "asymmetric",           "align_corners",
                                             "pytorch_half_pixel", "tf_half_pixel_for_nn", "half_pixel_symmetric",
                                             "tf_crop_and_resize"};
constexpr std::string_view kNearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"};
template <size_t N>
Result<int> place_in(const std::string_view (&words)[N], const std::string& word) {
  for (size_t k = 0; k < N; ++k)
    if (words[k] == word) return static_cast<int>(k);
  return refused("'%s' is unknown", word.c_str());
}

// Every product and quotient is rounded by itself, as the definition computes which neighbour is nearest.
constexpr std::string_view kFunctions = R"(
struct peri_axis { PERI_INDEX base; int first, last; float ratio, shrink, total; bool outside; };
PERI_DEVICE float peri_number(const peri_i64 bits) { return peri_bits((unsigned)bits); }
PERI_DEVICE float peri_coordinate(const PERI_INDEX o, const PERI_INDEX size, const PERI_INDEX made, const float scale,
                                  const float start, const float end) {
  const float x = (float)o, in = (float)size, width = scale * in;
  if (PERI_COORDINATES == 1) return x / scale;
  if (PERI_COORDINATES == 2) return width == 1.0f ? 0.0f : x * (in - 1.0f) / (width - 1.0f);
  if (PERI_COORDINATES == 3) return made > 1 ? (x + 0.5f) / scale - 0.5f : 0.0f;
  if (PERI_COORDINATES == 4) return (x + 0.5f) / scale;
  if (PERI_COORDINATES == 5) return in / 2.0f * (1.0f - (float)made / width) + (x + 0.5f) / scale - 0.5f;
  if (PERI_COORDINATES == 6)
    return made > 1 ? start * (in - 1.0f) + x * (end - start) * (in - 1.0f) / (width - 1.0f)
                    : 0.5f * (start + end) * (in - 1.0f);
  return (x + 0.5f) / scale - 0.5f;
}
PERI_DEVICE float peri_spread(float x) {
  x = fabsf(x);
  if (!PERI_CUBIC) return x < 1.0f ? 1.0f - x : 0.0f;
  const float a = PERI_CUBIC_A;
  if (x <= 1.0f) return ((a + 2.0f) * x - (a + 3.0f)) * x * x + 1.0f;
  return x < 2.0f ? ((a * x - 5.0f * a) * x + 8.0f * a) * x - 4.0f * a : 0.0f;
}
PERI_DEVICE float peri_tap(const peri_axis& a, const int k, const PERI_INDEX in) {
  const PERI_INDEX at = a.base + k;
  if (PERI_EXCLUDE && (at < 0 || at >= in)) return 0.0f;
  return peri_spread(((float)k - a.ratio) * a.shrink);
}
PERI_DEVICE PERI_INDEX peri_within(const PERI_INDEX at, const PERI_INDEX in) {
  return at < 0 ? 0 : at >= in ? in - 1 : at;
}
PERI_DEVICE peri_axis peri_axis_of(const PERI_INDEX o, const PERI_INDEX in, const PERI_INDEX made, const float scale,
                                   const float start, const float end) {
  const float x = peri_coordinate(o, in, made, scale, start, end);
  peri_axis a;
  a.outside = PERI_COORDINATES == 6 && (x < 0.0f || x > (float)(in - 1));
  a.shrink = 1.0f, a.total = 1.0f, a.first = a.last = 0, a.ratio = 0.0f;
#if PERI_NEAREST >= 0
  const float low = floorf(x), rest = x - low;
  bool up = PERI_NEAREST == 0 ? rest > 0.5f : PERI_NEAREST == 1 ? rest >= 0.5f : PERI_NEAREST == 3;
  if (PERI_NEAREST == 4) up = scale < 1.0f;
  a.base = peri_within((PERI_INDEX)low + (rest != 0.0f && up ? 1 : 0), in);
#else
  const float base = ceilf(x) - 1.0f;
  a.base = (PERI_INDEX)base, a.ratio = x - base;
  if (PERI_ANTIALIAS && scale < 1.0f) a.shrink = scale;
  a.first = (int)floorf((PERI_CUBIC ? -2.0f : -1.0f) / a.shrink) + 1, a.last = 1 - a.first;
  if (PERI_ANTIALIAS || PERI_EXCLUDE) {
    a.total = 0.0f;
    for (int k = a.first; k <= a.last; ++k) a.total += peri_tap(a, k, in);
  }
#endif
  return a;
}
)";

struct Loops {
  std::string axes, last, loops, place = "0", ends, weight = "1.0f", outside = "false";
};

Loops loops_of(const std::vector<Axis>& resized, const std::vector<int64_t>& x, const std::vector<int64_t>& y,
               bool nearest, Signature* s) {
  Loops out;
  const auto bits = [&](double v) {
    return "peri_number(" + s->size(std::bit_cast<uint32_t>(static_cast<float>(v))) + ")";
  };
  for (size_t d = 0; d < x.size(); ++d) {
    const std::string n = std::to_string(d);
    const Axis* axis = nullptr;
    for (const Axis& a : resized)
      if (a.at == d) axis = &a;
    std::string index = "c" + n;
    if (axis) {
      const std::string in = s->size(x[d]);
      (d + 1 == x.size() ? out.last : out.axes) += "    const peri_axis a" + n + " = peri_axis_of(c" + n + ", " + in +
                                                   ", " + s->size(y[d]) + ", " + bits(axis->scale) + ", " +
                                                   bits(axis->start) + ", " + bits(axis->end) + ");\n";
      out.outside += " || a" + n + ".outside";
      index = "a" + n + ".base";
      if (!nearest) {
        out.loops += "    for (int k" + n + " = a" + n + ".first; k" + n + " <= a" + n + ".last; ++k" + n +
                     ") {\n    const float w" + n + " = peri_tap(a" + n + ", k" + n + ", " + in + ") / a" + n +
                     ".total;\n";
        out.ends += "    }\n";
        out.weight += " * w" + n;
        index = "peri_within(a" + n + ".base + k" + n + ", " + in + ")";
      }
    }
    out.place = "(" + out.place + ") * " + s->size(x[d]) + " + " + index;
  }
  return out;
}

Result<std::vector<KernelLaunch>> plan(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "resize") return refused("not a resize");
  const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.out());
  const DType dtype = n.in(0)->type.dtype;
  const std::string mode = n.s("mode", "nearest");
  const bool nearest = mode == "nearest", cubic = mode == "cubic";
  if (!is_float(dtype) && !nearest) return refused("blends floats only").but_found(std::string(dtype_name(dtype)));
  if (dtype == DType::kF64) return refused("elements of f64");
  PERI_ASSIGN(const int coordinates, place_in(kCoordinates, n.s("coordinate_transformation_mode", "half_pixel")));
  PERI_ASSIGN(const int nearest_mode, place_in(kNearest, n.s("nearest_mode", "round_prefer_floor")));
  PERI_ASSIGN(const std::vector<Axis> resized, axes_of(n, x, y));
  Signature s;
  PERI_ASSIGN(const std::string from, s.value(p, *n.in(0)));
  const int64_t count = cuda::numel_of(*n.out());
  const bool eight = is_float(dtype) && y.back() % 8 == 0;
  PERI_ASSIGN(const std::string finish, eight ? cuda::finish_wide_text(p, 8, &s) : cuda::finish_text(p, true, &s));
  PERI_TRY(cuda::check_row_major(*p.graph));
  const Loops l = loops_of(resized, x, y, nearest, &s);
  const std::string type = cuda::register_type(dtype), element = cuda::loaded(dtype, from + "[" + l.place + "]");
  std::string one = l.last;
  one += nearest ? "    " + type + " v = " + element + ";\n"
                 : "    float v = 0.0f;\n" + l.loops + "    const float w = " + l.weight +
                       ";\n    if (w != 0.0f) v = fmaf(w, " + element + ", v);\n" + l.ends;
  one += format("    if (%s) v = (%s)((float)%.9g);\n", l.outside.c_str(), type.c_str(),
                n.f("extrapolation_value", 0) + 0.0);
  // Eight neighbours share all coordinates but the last.
  const std::string last = "c" + std::to_string(y.size() - 1);
  std::string body = cuda::coordinates_text(y, &s) + l.axes + one + "    peri_finish(i, v, PERI_PASS);\n";
  if (eight) {
    body = cuda::coordinates_text(y, &s) + l.axes + "    const PERI_INDEX begin = " + last + ";\n    float all[8];\n" +
           "#pragma unroll\n    for (int e = 0; e < 8; ++e) {\n    const PERI_INDEX " + last + " = begin + e;\n" + one +
           "    all[e] = v;\n    }\n    if (PERI_ALIGNED) {\n    peri_finish_8(i, all, PERI_PASS);\n    } else {\n"
           "#pragma unroll\n    for (int e = 0; e < 8; ++e) peri_finish(i + e, all[e], PERI_PASS);\n    }\n";
  }
  const auto define = [](const char* name, int value) { return format("#define PERI_%s %d\n", name, value); };
  const std::string text = define("COORDINATES", coordinates) + define("NEAREST", nearest ? nearest_mode : -1) +
                           define("CUBIC", cubic) + define("ANTIALIAS", n.i("antialias") != 0) +
                           define("EXCLUDE", n.i("exclude_outside") != 0) +
                           format("#define PERI_CUBIC_A ((float)%.9g)\n", n.f("cubic_coeff_a", -0.75)) +
                           std::string(kFunctions) + finish + "#define PERI_ALIGNED (" + s.aligned() + ")\n" +
                           cuda::each_text("peri_resize", s.size(count), body, eight ? 8 : 1);
  return cuda::each_launch(p, s, "peri_resize", count, text, eight ? 8 : 1);
}
}  // namespace

extern const Entry cuda_resize_entry;
const Entry cuda_resize_entry = [] {
  Entry out = cuda::entry_of<plan>(
      "cuda_resize", "resize on a GPU, nearest, linear and cubic, any axes and coordinates, with its epilogue");
  out.kernel.samples = {
      "graph { input x: f16[2,3,4,5]; const s: i64[4] = [2, 3, 7, 16]; y = resize(x, _, _, s) "
      "{mode=\"linear\", coordinate_transformation_mode=\"pytorch_half_pixel\"}; output y }",
      "graph { input x: bf16[1,2,4,8]; const s: i64[4] = [1, 2, 8, 8]; y = resize(x, _, _, s); z = "
      "relu(y); output z }"};
  return out;
}();

}  // namespace peri::kernels
