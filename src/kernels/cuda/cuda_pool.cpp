// Kernel cuda_pool: max and average pooling over one to three dimensions with the element-wise chain after them, on a
// GPU: one result per thread, or eight adjacent channels with channels last.
#include <algorithm>
#include <array>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/layouts.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;

// Always three dimensions, the missing ones of size 1 in front; windows as numbers of the text.
Result<std::string> defines(const ir::Node& n, Signature* s) {
  const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.out());
  if (x.size() < 3 || x.size() > 5) return refused("takes one to three spatial dimensions");
  const size_t rank = x.size() - 2;
  const std::vector<int64_t> ones(rank, 1), kernel = n.ints("kernel_shape"), strides = n.ints("strides", ones),
                                            dilations = n.ints("dilations", ones);
  std::vector<int64_t> pads = n.ints("pads", std::vector<int64_t>(2 * rank, 0));
  if (kernel.size() != rank || strides.size() != rank || dilations.size() != rank || pads.size() != 2 * rank)
    return refused("bad attributes");
  const std::string automatic = n.s("auto_pad", "NOTSET");
  if (automatic != "NOTSET") pads.assign(2 * rank, 0);
  for (size_t k = 0; k < rank && automatic.starts_with("SAME"); ++k) {
    const int64_t reach = (y[2 + k] - 1) * strides[k] + dilations[k] * (kernel[k] - 1) + 1;
    const int64_t total = std::max<int64_t>(0, reach - x[2 + k]), less = total / 2;
    pads[k] = automatic == "SAME_UPPER" ? less : total - less;
    pads[rank + k] = total - pads[k];
  }
  std::string out;
  const char* const axis[] = {"D", "H", "W"};
  int64_t taps = 1;
  for (size_t d = 0; d < 3; ++d) {
    const bool here = d + rank >= 3;
    const size_t k = d + rank - 3;
    const auto define = [&](const char* name, const std::string& value) {
      out += std::string("#define PERI_") + name + axis[d] + " " + value + "\n";
    };
    const auto fixed = [&](const char* name, int64_t value) { define(name, "(" + std::to_string(value) + ")"); };
    fixed("KERNEL_", here ? kernel[k] : 1);
    taps *= here ? kernel[k] : 1;
    fixed("STRIDE_", here ? strides[k] : 1);
    fixed("DILATION_", here ? dilations[k] : 1);
    fixed("PAD_", here ? pads[k] : 0);
    fixed("END_", here ? pads[rank + k] : 0);
    define("IN_", here ? s->size(x[2 + k]) : "1");
    define("OUT_", here ? s->size(y[2 + k]) : "1");
  }
  return out + "#define PERI_UNROLL " + (taps <= 25 ? "_Pragma(\"unroll\")" : "") + "\n";
}

constexpr std::string_view kKernel = R"(
// Results i to i + kEach - 1, neighbouring channels of a pixel.
template <int kEach>
PERI_DEVICE void peri_window(const PERI_INDEX i, PERI_PARAMETERS) {
    PERI_INDEX rest = i, channel = 0;
    if (PERI_LAST) channel = rest % PERI_CHANNELS, rest /= PERI_CHANNELS;
    const PERI_INDEX w0 = rest % PERI_OUT_W * PERI_STRIDE_W - PERI_PAD_W; rest /= PERI_OUT_W;
    const PERI_INDEX h0 = rest % PERI_OUT_H * PERI_STRIDE_H - PERI_PAD_H; rest /= PERI_OUT_H;
    const PERI_INDEX d0 = rest % PERI_OUT_D * PERI_STRIDE_D - PERI_PAD_D; rest /= PERI_OUT_D;
    const PERI_INDEX base = rest * PERI_IN_D * PERI_IN_H * PERI_IN_W * PERI_PIXEL + channel;
    float v[kEach];
#pragma unroll
    for (int e = 0; e < kEach; ++e) v[e] = PERI_START;
    int count = 0;
    PERI_UNROLL for (int kd = 0; kd < PERI_KERNEL_D; ++kd)
      PERI_UNROLL for (int kh = 0; kh < PERI_KERNEL_H; ++kh)
        PERI_UNROLL for (int kw = 0; kw < PERI_KERNEL_W; ++kw) {
          const PERI_INDEX d = d0 + kd * PERI_DILATION_D, h = h0 + kh * PERI_DILATION_H, w = w0 + kw * PERI_DILATION_W;
          const bool padded = d < PERI_IN_D + PERI_END_D && h < PERI_IN_H + PERI_END_H && w < PERI_IN_W + PERI_END_W;
          const bool inside = d >= 0 && d < PERI_IN_D && h >= 0 && h < PERI_IN_H && w >= 0 && w < PERI_IN_W;
          count += PERI_PADDING ? padded : inside;
          float x[kEach];
          peri_x<kEach>(inside ? base + ((d * PERI_IN_H + h) * PERI_IN_W + w) * PERI_PIXEL : 0, x, PERI_PASS);
#pragma unroll
          for (int e = 0; e < kEach; ++e) v[e] = inside ? peri_join(v[e], x[e]) : v[e];
        }
#pragma unroll
    for (int e = 0; e < kEach; ++e) v[e] = peri_end(v[e], count);
#if PERI_EIGHT
    if (kEach == 8) {
#pragma unroll
      for (int e = 0; PERI_WHOLE && e < kEach; ++e) v[e] = peri_bits((unsigned)(int)v[e]);
      peri_finish_8(i, v, PERI_PASS);
      return;
    }
#endif
#if PERI_WHOLE
    peri_finish(i, (int)v[0], PERI_PASS);
#else
    peri_finish(i, v[0], PERI_PASS);
#endif
}
PERI_KERNEL __launch_bounds__(256) peri_pool(PERI_PARAMETERS) {
  const PERI_INDEX step = (PERI_INDEX)gridDim.x * 256, first = (PERI_INDEX)blockIdx.x * 256 + threadIdx.x;
#if PERI_EIGHT
  if (PERI_ALIGNED) {
    for (PERI_INDEX i = first; i < PERI_COUNT / 8; i += step) peri_window<8>(i * 8, PERI_PASS);
    return;
  }
#endif
  for (PERI_INDEX i = first; i < PERI_COUNT; i += step) peri_window<1>(i, PERI_PASS);
}
)";

Result<std::vector<KernelLaunch>> plan(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "max_pool" && n.op != "average_pool") return refused("not a pooling it knows");
  const bool max = n.op == "max_pool";
  const DType dtype = n.in(0)->type.dtype;
  const bool whole = max && (dtype == DType::kU8 || dtype == DType::kI8);  // in floats, exact
  if (!whole && dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16)
    return refused("takes f32, f16, bf16, and the largest of u8 and i8").but_found(std::string(dtype_name(dtype)));
  Signature s;
  PERI_ASSIGN(const std::string x, s.value(p, *n.in(0)));
  PERI_ASSIGN(const std::string sizes, defines(n, &s));
  const ir::Layout &from = n.in(0)->type.layout, &to = p.graph->outputs[0]->type.layout;
  const bool last = from == cuda::channels_last(n.in(0)->type.rank());
  if (!(from == to) || (!last && !from.row_major())) return refused("another layout");
  const int64_t own_channels = dims_of(*n.in(0))[1];
  const std::string channels = s.size(own_channels);
  const bool eight = last && own_channels % 8 == 0;
  PERI_ASSIGN(const std::string finish, eight ? cuda::finish_wide_text(p, 8, &s) : cuda::finish_any_text(p, true, &s));
  const int64_t count = cuda::numel_of(*n.out());
  if (count == 0) return std::vector<KernelLaunch>{};
  // A window of padding alone has the lowest value of the type.
  const std::string lowest = dtype == DType::kF32   ? "peri_bits(0xff7fffffu)"
                             : dtype == DType::kF16 ? "-65504.0f"
                             : dtype == DType::kU8  ? "0.0f"
                             : dtype == DType::kI8  ? "-128.0f"
                                                    : "peri_bits(0xff7f0000u)";
  const std::string read_8 = whole ? "int w[8];\n    " + cuda::load_wide(8, dtype, x + " + at", "w") +
                                         ";\n#pragma unroll\n    for (int e = 0; e < 8; ++e) v[e] = (float)w[e];\n"
                                   : cuda::load_wide(8, dtype, x + " + at", "v") + ";\n";
  const std::string body =
      sizes + "#define PERI_LAST " + (last ? "1" : "0") + "\n#define PERI_CHANNELS " + channels +
      "\n#define PERI_PIXEL " + (last ? channels : "1") + "\n#define PERI_COUNT " + s.size(count) +
      "\n#define PERI_PADDING " + (n.i("count_include_pad") ? "1" : "0") + "\n#define PERI_START " +
      (max ? lowest : "0.0f") +
      format("\n#define PERI_WHOLE %d\n#define PERI_EIGHT %d\n#define PERI_ALIGNED (", whole, eight) + s.aligned() +
      ")\ntemplate <int kEach> PERI_DEVICE void peri_x(const PERI_INDEX at, float* v, PERI_PARAMETERS) {\n" +
      (eight ? "  if (kEach == 8) {\n    " + read_8 + "    return;\n  }\n" : "") + "  v[0] = (float)" +
      cuda::loaded(dtype, x + "[at]") + ";\n}\nPERI_DEVICE float peri_join(const float a, const float b) { return " +
      (max ? "peri_max(a, b)" : "a + b") + "; }\nPERI_DEVICE float peri_end(const float v, const int count) { return " +
      (max ? "v" : "v / (float)count") + "; }\n" + finish + std::string(kKernel);
  return std::vector<KernelLaunch>{s.launch("peri_pool", s.text(cuda::most_elements(p), body),
                                            cuda::blocks_for(eight ? count / 8 : count, 256), 256)};
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_TRY(plan(p));
  std::vector<Offer> out = cuda::plain_offer(p);
  Offer last = out[0];
  const ir::Layout layout = cuda::channels_last(p.graph->outputs[0]->type.rank());
  const ir::Graph g = cuda::with_layouts(p, layout, layout, &last);
  if (plan({&g, p.constant}).ok()) out.push_back(std::move(last));
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext&) {
  PERI_ASSIGN(std::vector<KernelLaunch> launches, plan(p));
  return cuda::LaunchInstance::make(std::move(launches));
}
}  // namespace

extern const Entry cuda_pool_entry;
const Entry cuda_pool_entry{{
    .name = "cuda_pool",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "max and average pooling on a GPU, one to three dimensions, with their epilogue",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f16[2,16,9,10]; y = max_pool(x) {kernel_shape=[3,3], strides=[2,2], "
                "pads=[1,1,1,1]}; output y }",
                "graph { input x: bf16[1,24,7,8]; y = average_pool(x) {kernel_shape=[3,2], pads=[1,0,1,1], "
                "count_include_pad=1}; z = relu(y); output z }",
                "graph { input x: f16[2,8,9,7]; y = average_pool(x) {kernel_shape=[6,5], pads=[2,2,2,2]}; output y }",
                "graph { input x: u8[2,16,9,10]; y = max_pool(x) {kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]}; "
                "output y }",
                "graph { input x: i8[1,5,9,7]; y = max_pool(x) {kernel_shape=[2,3]}; output y }"},
}};

}  // namespace peri::kernels
