// Kernel cuda_roi: roi_align, means and largest terms, on a GPU; one thread per bin, regions in float32 as the
// definition has them. A batch index or a region out of range is the run's error.
#include "kernels/cuda/code/each.hpp"
#include "kernels/cuda/code/entry.hpp"

namespace peri::kernels {
namespace {
using cuda::Signature;

// A product is rounded before the difference, since the number of samples depends on it.
constexpr std::string_view kRegion = R"(
#ifdef __CUDACC_RTC__
PERI_DEVICE float peri_times(const float a, const float b) { return __fmul_rn(a, b); }
#else
PERI_DEVICE float peri_times(const float a, const float b) { return a * b; }
#endif
struct peri_axis { float start, size; int samples; };
PERI_DEVICE peri_axis peri_axis_of(const float from, const float to, const int bins, int* fault) {
  const float shift = PERI_HALF ? 0.5f : 0.0f;
  peri_axis a;
  a.start = peri_times(from, PERI_SPATIAL) - shift;
  float length = peri_times(to, PERI_SPATIAL) - shift - a.start;
  if (!PERI_HALF && !(length >= 1.0f)) length = 1.0f;
  a.size = length / (float)bins;
  const float samples = PERI_RATIO > 0 ? (float)PERI_RATIO : ceilf(a.size);
  a.samples = samples > 0.0f ? (int)samples : 0;
  if (!(samples <= 4096.0f) || !(fabsf(a.start) < peri_inf())) *fault = 2, a.start = a.size = 0.0f, a.samples = 0;
  return a;
}
struct peri_between { PERI_INDEX low, high; float first, second; };
PERI_DEVICE peri_between peri_between_of(const peri_axis& a, const int bin, const int k, const PERI_INDEX extent) {
  float at = a.start + (float)bin * a.size + ((float)k + 0.5f) * a.size / (float)a.samples;
  peri_between out = {0, 0, 0.0f, 0.0f};
  if (at < -1.0f || at > (float)extent) return out;
  at = at < 0.0f ? 0.0f : at;
  out.low = (PERI_INDEX)at < extent - 1 ? (PERI_INDEX)at : extent - 1;
  out.high = out.low + 1 < extent - 1 ? out.low + 1 : extent - 1;
  out.second = out.low == extent - 1 ? 0.0f : at - (float)out.low, out.first = 1.0f - out.second;
  return out;
}
)";
constexpr std::string_view kBin = R"(
    const int bx = (int)(i % PERI_BINS_X), by = (int)(i / PERI_BINS_X % PERI_BINS_Y);
    const PERI_INDEX plane = i / PERI_BINS_X / PERI_BINS_Y, c = plane % PERI_CHANNELS, r = plane / PERI_CHANNELS;
    peri_i64 b = (peri_i64)PERI_BATCH[r];
    if (b < 0 || b >= PERI_IMAGES) *PERI_FAULT = 1, b = 0;
    const peri_axis across = peri_axis_of(peri_roi(r * 4, PERI_PASS), peri_roi(r * 4 + 2, PERI_PASS), PERI_BINS_X, PERI_FAULT);
    const peri_axis down = peri_axis_of(peri_roi(r * 4 + 1, PERI_PASS), peri_roi(r * 4 + 3, PERI_PASS), PERI_BINS_Y, PERI_FAULT);
    const PERI_INDEX first = ((PERI_INDEX)b * PERI_CHANNELS + c) * PERI_HEIGHT * PERI_WIDTH;
    float v = 0.0f;
    bool any = false;
    for (int m = 0; m < down.samples; ++m) {
      const peri_between y = peri_between_of(down, by, m, PERI_HEIGHT);
      for (int n = 0; n < across.samples; ++n) {
        const peri_between x = peri_between_of(across, bx, n, PERI_WIDTH);
        for (int k = 0; k < 4; ++k) {
          const float weight = (k < 2 ? y.first : y.second) * (k % 2 == 0 ? x.first : x.second);
          const PERI_INDEX at = first + (k < 2 ? y.low : y.high) * PERI_WIDTH + (k % 2 == 0 ? x.low : x.high);
          const float term = weight == 0.0f ? 0.0f : weight * peri_x(at, PERI_PASS);
          if (!PERI_LARGEST) v += term;
          if (PERI_LARGEST && (!any || term > v || term != term)) v = term;
          any = true;
        }
      }
    }
    const int samples = down.samples * across.samples;
    if (!PERI_LARGEST && samples > 0) v /= (float)samples;
)";

Result<cuda::Planned> plan(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "roi_align") return refused("not a roi_align");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  for (const auto* list : {&p.graph->inputs, &p.graph->outputs})
    for (const ir::Value* v : *list) {
      if (!v->type.layout.row_major()) return refused("takes and makes row-major tensors only");
      if (v->type.dtype == DType::kF64) return refused("takes f32, f16 and bf16 only").but_found("f64");
    }
  const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.out());
  if (cuda::elements_of(y) == 0) return cuda::Planned{};
  if (cuda::elements_of(x) == 0) return refused("an image without elements");
  Signature s;
  PERI_ASSIGN(const std::string from, s.value(p, *n.in(0)));
  PERI_ASSIGN(const std::string rois, s.value(p, *n.in(1)));
  PERI_ASSIGN(const std::string batch, s.value(p, *n.in(2)));
  PERI_ASSIGN(const std::string to, s.output(p, 0));
  std::string text;
  const auto define = [&](const char* name, const std::string& what) {
    text += std::string("#define PERI_") + name + " " + what + "\n";
  };
  define("HALF", n.s("coordinate_transformation_mode", "half_pixel") == "half_pixel" ? "true" : "false");
  define("LARGEST", n.s("mode", "avg") == "max" ? "true" : "false");
  define("SPATIAL", format("((float)%.9g)", n.f("spatial_scale", 1)));
  define("RATIO", std::to_string(n.i("sampling_ratio", 0)));
  define("BATCH", batch);
  define("IMAGES", s.size(x[0]));
  define("CHANNELS", s.size(x[1]));
  define("HEIGHT", s.size(x[2]));
  define("WIDTH", s.size(x[3]));
  define("BINS_Y", std::to_string(y[2]));
  define("BINS_X", std::to_string(y[3]));
  define("FAULT", s.fault());
  const auto reader = [&](const char* name, DType type, const std::string& of) {
    text += std::string("PERI_DEVICE float peri_") + name + "(const PERI_INDEX at, PERI_PARAMETERS) { return " +
            cuda::loaded(type, of + "[at]") + "; }\n";
  };
  reader("x", n.in(0)->type.dtype, from);
  reader("roi", n.in(1)->type.dtype, rois);
  const int64_t count = cuda::elements_of(y);
  text += std::string(kRegion) +
          cuda::each_text("peri_roi_align", s.size(count),
                          std::string(kBin) + "    " + to + "[i] = " + cuda::stored(n.out()->type.dtype, "v") + ";\n");
  cuda::Planned out{cuda::each_launch(p, s, "peri_roi_align", count, text)};
  out.faults = {invalid("a batch index of roi_align is out of range")
                    .expecting(format("[0, %lld)", static_cast<long long>(x[0])))
                    .advise("check the input that holds the batch indices"),
                invalid("a region of interest is out of range")
                    .expecting("finite numbers, at most 4096 samples along a bin")
                    .advise("check the input that holds the regions")};
  return out;
}
}  // namespace

extern const Entry cuda_roi_entry;
const Entry cuda_roi_entry = cuda::entry_of<plan>("cuda_roi", "roi_align on a GPU, means and largest terms");

}  // namespace peri::kernels
