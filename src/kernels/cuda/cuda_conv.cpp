// Kernel cuda_conv: convolutions over one to three dimensions with the element-wise chain after them, on a GPU: as an
// implicit product (rows are output channels, columns output pixels), or one thread per element (way=direct).
#include <algorithm>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/conv_shape.hpp"
#include "kernels/cuda/code/product.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
using Conv = cuda::ConvShape;
using cuda::KernelLaunch;
using cuda::Signature;

// Sizes as parameters, what attributes and weights fix as numbers of the text.
std::string defines(const Conv& c, Signature* s) {
  std::string out;
  const auto define = [&](const char* name, const std::string& value) {
    out += std::string("#define PERI_") + name + " " + value + "\n";
  };
  const char* const axis[] = {"D", "H", "W"};
  for (size_t d = 0; d < 3; ++d) {
    const auto fixed = [&](const char* name, int64_t v) {
      define((std::string(name) + axis[d]).c_str(), "(" + std::to_string(v) + ")");
    };
    fixed("KERNEL_", c.kernel[d]);
    fixed("STRIDE_", c.stride[d]);
    fixed("DILATION_", c.dilation[d]);
    fixed("PAD_", c.pad[d]);
    define((std::string("IN_") + axis[d]).c_str(), c.in[d] == 1 ? "1" : s->size(c.in[d]));
    define((std::string("OUT_") + axis[d]).c_str(), c.out[d] == 1 ? "1" : s->size(c.out[d]));
  }
  define("GROUPS", std::to_string(c.groups));
  define("CHANNELS", std::to_string(c.channels));
  define("OUTPUTS", std::to_string(c.outputs));
  return out;
}

// The first input pixel of an output pixel, and the element under a tap of it.
std::string reading(const std::string& x_element) {
  return R"(struct peri_column { PERI_INDEX base; int d, h, w; bool inside; };
PERI_DEVICE peri_column peri_window(const PERI_INDEX image, const PERI_INDEX group, PERI_INDEX pixel, PERI_PARAMETERS) {
  peri_column out;
  out.w = (int)(pixel % PERI_OUT_W) * PERI_STRIDE_W - PERI_PAD_W; pixel /= PERI_OUT_W;
  out.h = (int)(pixel % PERI_OUT_H) * PERI_STRIDE_H - PERI_PAD_H; pixel /= PERI_OUT_H;
  out.d = (int)pixel * PERI_STRIDE_D - PERI_PAD_D;
  out.base = (image * PERI_GROUPS + group) * PERI_CHANNELS * PERI_IN_D * PERI_IN_H * PERI_IN_W;
  out.inside = true;
  return out;
}
PERI_DEVICE float peri_tap(const peri_column& column, const PERI_INDEX channel, const int kd, const int kh, const int kw,
                           PERI_PARAMETERS) {
  const int d = column.d + kd * PERI_DILATION_D, h = column.h + kh * PERI_DILATION_H, w = column.w + kw * PERI_DILATION_W;
  if (d < 0 || d >= PERI_IN_D || h < 0 || h >= PERI_IN_H || w < 0 || w >= PERI_IN_W) return 0.0f;
  const PERI_INDEX at = column.base + ((channel * PERI_IN_D + d) * PERI_IN_H + h) * PERI_IN_W + w;
  return )" +
         x_element + ";\n}\n";
}

constexpr std::string_view kProductFunctions = R"(
PERI_DEVICE PERI_INDEX peri_a_base(const PERI_INDEX batch, PERI_PARAMETERS) { return batch * PERI_M * PERI_K; }
PERI_DEVICE float peri_a(const PERI_INDEX base, const PERI_INDEX m, const PERI_INDEX k, PERI_PARAMETERS) {
  return peri_weight(base + m * PERI_K + k, PERI_PASS);
}
PERI_DEVICE peri_column peri_column_of(const PERI_INDEX batch, const PERI_INDEX n, PERI_PARAMETERS) {
  const PERI_INDEX pixels = PERI_OUT_D * PERI_OUT_H * PERI_OUT_W;
  peri_column out = peri_window(n / pixels, batch, n % pixels, PERI_PASS);
  out.inside = n < PERI_N;
  return out;
}
PERI_DEVICE float peri_b(const peri_column& column, const PERI_INDEX k, PERI_PARAMETERS) {
  if (!column.inside) return 0.0f;
  int tap = (int)(k % (PERI_KERNEL_D * PERI_KERNEL_H * PERI_KERNEL_W));
  const int kw = tap % PERI_KERNEL_W; tap /= PERI_KERNEL_W;
  return peri_tap(column, k / (PERI_KERNEL_D * PERI_KERNEL_H * PERI_KERNEL_W), tap / PERI_KERNEL_H, tap % PERI_KERNEL_H,
                  kw, PERI_PASS);
}
PERI_DEVICE PERI_INDEX peri_place(const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {
  const PERI_INDEX pixels = PERI_OUT_D * PERI_OUT_H * PERI_OUT_W;
  return (((n / pixels) * PERI_GROUPS + batch) * PERI_M + m) * pixels + n % pixels;
}
PERI_DEVICE float peri_sum(const float sum, const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n,
                           PERI_PARAMETERS) {
  return sum + peri_bias(batch * PERI_M + m, PERI_PASS);
}
)";

constexpr std::string_view kDirect = R"(
PERI_KERNEL __launch_bounds__(256) peri_conv_direct(PERI_PARAMETERS) {
  const PERI_INDEX step = (PERI_INDEX)gridDim.x * 256, pixels = PERI_OUT_D * PERI_OUT_H * PERI_OUT_W;
  for (PERI_INDEX i = (PERI_INDEX)blockIdx.x * 256 + threadIdx.x; i < PERI_COUNT; i += step) {
    PERI_INDEX rest = i / pixels;
    const PERI_INDEX output = rest % (PERI_GROUPS * PERI_OUTPUTS); rest /= PERI_GROUPS * PERI_OUTPUTS;
    const peri_column column = peri_window(rest, output / PERI_OUTPUTS, i % pixels, PERI_PASS);
    PERI_INDEX at = output * (PERI_CHANNELS * PERI_KERNEL_D * PERI_KERNEL_H * PERI_KERNEL_W);
    float sum = 0.0f;
    for (int channel = 0; channel < PERI_CHANNELS; ++channel)
      for (int kd = 0; kd < PERI_KERNEL_D; ++kd)
        for (int kh = 0; kh < PERI_KERNEL_H; ++kh)
          for (int kw = 0; kw < PERI_KERNEL_W; ++kw)
            sum = fmaf(peri_weight(at++, PERI_PASS), peri_tap(column, channel, kd, kh, kw, PERI_PASS), sum);
    peri_finish(i, sum + peri_bias(output, PERI_PASS), PERI_PASS);
  }
}
)";

// What both ways begin with.
Result<std::string> functions(const Problem& p, const Conv& c, const std::string& w, Signature* s) {
  const ir::Node& n = p.anchor();
  PERI_ASSIGN(const std::string x, s->value(p, *n.in(0)));
  std::string bias = "0.0f";
  if (n.in(2)) {
    PERI_ASSIGN(const std::string b, s->value(p, *n.in(2)));
    bias = cuda::loaded(n.in(2)->type.dtype, b + "[at]");
  }
  std::string out = defines(c, s) + reading(cuda::loaded(n.in(0)->type.dtype, x + "[at]"));
  out += "PERI_DEVICE float peri_weight(const PERI_INDEX at, PERI_PARAMETERS) { return " +
         cuda::loaded(n.in(1)->type.dtype, w + "[at]") + "; }\n";
  out += "PERI_DEVICE float peri_bias(const PERI_INDEX at, PERI_PARAMETERS) { return " + bias + "; }\n";
  PERI_ASSIGN(const std::string finish, cuda::finish_text(p, true, s));
  return out + finish;
}

// A window of one pixel that lies at its output's place: pixels of an image are neighbours of each operand.
bool is_pointwise(const Conv& c) {
  for (size_t d = 0; d < 3; ++d)
    if (c.kernel[d] != 1 || c.stride[d] != 1 || c.pad[d] != 0 || c.in[d] != c.out[d]) return false;
  return true;
}

// Weights with the taps before the channels, so that a step of the depth is one tap of neighbouring channels.
Result<Tensor> taps_first(const Tensor& w, const Conv& c) {
  const int64_t rows = c.groups * c.outputs, taps = c.taps();
  PERI_ASSIGN(Tensor out, Tensor::zeros(DType::kF32, {rows, taps, c.channels}));
  const auto* from = reinterpret_cast<const float*>(w.bytes().data());
  auto* to = reinterpret_cast<float*>(const_cast<std::byte*>(out.bytes().data()));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t channel = 0; channel < c.channels; ++channel)
      for (int64_t tap = 0; tap < taps; ++tap)
        to[(row * taps + tap) * c.channels + channel] = from[(row * c.channels + channel) * taps + tap];
  return out;
}

constexpr std::string_view kRuns = R"(
struct peri_run { PERI_INDEX at; bool there; };
PERI_DEVICE peri_run peri_run_of(const peri_column& column, const PERI_INDEX k, PERI_PARAMETERS) {
  int tap = (int)(k / PERI_CHANNELS);
  const int w = column.w + tap % PERI_KERNEL_W * PERI_DILATION_W; tap /= PERI_KERNEL_W;
  const int h = column.h + tap % PERI_KERNEL_H * PERI_DILATION_H, d = column.d + tap / PERI_KERNEL_H * PERI_DILATION_D;
  peri_run out;
  out.there = column.inside && d >= 0 && d < PERI_IN_D && h >= 0 && h < PERI_IN_H && w >= 0 && w < PERI_IN_W;
  out.at = column.base + ((k % PERI_CHANNELS * PERI_IN_D + d) * PERI_IN_H + h) * PERI_IN_W + w;
  return out;
}
)";

cuda::Product product_of(const Problem& p, const Conv& c) {
  cuda::Product out;
  out.batch = c.groups;
  out.m = c.outputs;
  out.n = c.images * c.pixels();
  out.k = c.channels * c.taps();
  const auto is_f32 = [&](size_t k) { return p.anchor().in(k)->type.dtype == DType::kF32; };
  out.a_wide = is_f32(1) && out.k % 4 == 0;
  out.b_wide = is_f32(0) && is_pointwise(c) && c.pixels() % 4 == 0;
  const int w = input_index(*p.graph, p.anchor().in(1));
  out.b_runs = is_f32(0) && is_f32(1) && c.taps() > 1 && c.channels % cuda::kProductDepth == 0 && w >= 0 &&
               p.constant[static_cast<size_t>(w)];
  if (out.b_runs) out.packed = {{static_cast<size_t>(w), [c](const Tensor& t) { return taps_first(t, c); }}};
  return out;
}

// Where four neighbours are, for a product that is wide; runs.
Result<std::string> more_functions(const Problem& p, const cuda::Product& product, const std::string& w, Signature* s) {
  PERI_ASSIGN(const std::string x, s->value(p, *p.anchor().in(0)));
  std::string out;
  if (product.b_runs)
    out += std::string(kRuns) +
           "PERI_DEVICE float peri_b_of(const peri_run& run, const int depth, PERI_PARAMETERS) {\n  return " + x +
           "[run.at + depth * (PERI_IN_D * PERI_IN_H * PERI_IN_W)];\n}\n";
  if (product.a_wide)
    out +=
        "PERI_DEVICE const float* peri_a_from(const PERI_INDEX base, const PERI_INDEX m, const PERI_INDEX k, "
        "PERI_PARAMETERS) {\n  return " +
        w + " + (base + m * PERI_K + k);\n}\n";
  if (product.b_wide)
    out +=
        "PERI_DEVICE const float* peri_b_from(const PERI_INDEX batch, const PERI_INDEX k, const PERI_INDEX n, "
        "PERI_PARAMETERS) {\n  const PERI_INDEX pixels = PERI_OUT_D * PERI_OUT_H * PERI_OUT_W;\n  return " +
        x + " + (((n / pixels * PERI_GROUPS + batch) * PERI_CHANNELS + k) * pixels + n % pixels);\n}\n";
  return out;
}

Result<std::unique_ptr<Instance>> plan(const Problem& p, const Conv& c, std::string_view config,
                                       const cuda::GpuLimits& gpu) {
  Signature s;
  const int64_t most = cuda::most_elements(p);
  if (config != "way=direct") {
    cuda::Product product = product_of(p, c);
    std::string w;
    if (product.b_runs) {
      w = "((const float*)" + s.packed(0) + ")";
    } else {
      PERI_ASSIGN(w, s.value(p, *p.anchor().in(1)));
    }
    PERI_ASSIGN(product.functions, functions(p, c, w, &s));
    PERI_ASSIGN(const std::string more, more_functions(p, product, w, &s));
    product.functions += std::string(kProductFunctions) + more;
    return cuda::product_instance(product, config, most, gpu, &s);
  }
  PERI_ASSIGN(const std::string w, s.value(p, *p.anchor().in(1)));
  PERI_ASSIGN(const std::string shared, functions(p, c, w, &s));
  const int64_t count = c.images * c.groups * c.outputs * c.pixels();
  const std::string body = "#define PERI_COUNT " + s.size(count) + "\n" + shared + std::string(kDirect);
  std::vector<KernelLaunch> out;
  if (count > 0) out.push_back(s.launch("peri_conv_direct", s.text(most, body), cuda::blocks_for(count, 256), 256));
  return cuda::LaunchInstance::make(std::move(out));
}

// An estimate (see launch.hpp): a thread waits for memory at each tap; many together are bounded by the bandwidth of
// the caches of all multiprocessors.
double direct_guess_ms(const Conv& c, const cuda::GpuLimits& gpu) {
  const double taps = static_cast<double>(c.channels * c.taps()),
               results = static_cast<double>(c.images * c.groups * c.outputs) * static_cast<double>(c.pixels());
  return (2500 + std::max(taps * 40, taps * results / (11.4 * gpu.multiprocessors))) / 1e6;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_ASSIGN(const Conv c, cuda::read_conv(p));
  std::vector<Offer> out;
  cuda::Product product = product_of(p, c);
  product.few = p.anchor().in(0)->type.dtype != DType::kF32;
  const cuda::GpuLimits gpu = cuda::limits_of(target);
  std::vector<cuda::ProductConfig> configs = cuda::product_configs(product, gpu);
  // A product of few rows leaves most of a tile idle.
  const bool thin = c.groups > 1 && c.outputs < 8;
  configs.insert(thin ? configs.begin() : configs.end(), {"way=direct", direct_guess_ms(c, gpu)});
  for (cuda::ProductConfig& config : configs) {
    PERI_TRY(plan(p, c, config.text, gpu));
    out.push_back(cuda::plain_offer(p)[0]);
    out.back().guess_ms = config.guess_ms;
    out.back().config = std::move(config.text);
  }
  // Of 16 bits tensor cores have what is not in groups (cuda_conv_mma): none of these is chosen in tests/whole/locks.
  constexpr size_t kMaxBesideTensorCores = 2;
  if (product.few && c.groups == 1 && out.size() > kMaxBesideTensorCores) {
    std::stable_sort(out.begin(), out.end(), [](const Offer& a, const Offer& b) { return a.guess_ms < b.guess_ms; });
    out.resize(kMaxBesideTensorCores);
  }
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config,
                                              const InstantiateContext& context) {
  PERI_ASSIGN(const Conv c, cuda::read_conv(p));
  return plan(p, c, config, cuda::limits_of(*context.target));
}
}  // namespace

extern const Entry cuda_conv_entry;
const Entry cuda_conv_entry{{
    .name = "cuda_conv",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "convolutions on a GPU with their epilogue, one to three dimensions, groups, sums in float32",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f32[2,32,9,7]; const w: f32[20,16,3,3] = seeded(0.1, 1); const b: f32[20] = "
                "seeded(0.5, 2); y = conv(x, w, b) {pads=[1,2,1,2], strides=[2,1], group=2}; z = relu(y); output z }",
                "graph { input x: f32[2,32,6,8]; const w: f32[24,32,1,1] = seeded(0.1, 1); y = conv(x, w); output y }"},
}};

}  // namespace peri::kernels
