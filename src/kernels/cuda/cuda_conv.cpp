// Kernel cuda_conv: convolutions over one to three dimensions with the element-wise chain after them, on a GPU: as an
// implicit product (rows are output channels, columns output pixels), or one thread per element (way=direct).
#include <algorithm>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/conv_product.hpp"
#include "kernels/cuda/code/product.hpp"
#include "kernels/cuda/code/sums.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
using Conv = cuda::ConvShape;
using cuda::KernelLaunch;
using cuda::Signature;

constexpr std::string_view kSum = R"(
PERI_DEVICE float peri_sum(const peri_sum_type sum, const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n,
                           PERI_PARAMETERS) {
  return sum + peri_bias(batch * PERI_M + m, PERI_PASS);
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
  std::string out = cuda::conv_text(c, "float", cuda::loaded(n.in(0)->type.dtype, x + "[at]"),
                                    cuda::loaded(n.in(1)->type.dtype, w + "[at]"), s);
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
    product.functions += std::string(cuda::conv_product_text()) + std::string(kSum) + more;
    return cuda::product_instance(product, config, most, gpu, &s);
  }
  PERI_ASSIGN(const std::string w, s.value(p, *p.anchor().in(1)));
  PERI_ASSIGN(const std::string shared, functions(p, c, w, &s));
  const int64_t count = c.images * c.groups * c.outputs * c.pixels();
  const cuda::DirectConv direct = cuda::conv_direct_text(count, &s);
  const std::string body =
      cuda::sums_text(cuda::summed_type(p.anchor()), gpu) + direct.sizes + shared + std::string(kSum) + direct.kernel;
  std::vector<KernelLaunch> out;
  if (count > 0) out.push_back(s.launch("peri_conv_direct", s.text(most, body), cuda::blocks_for(count, 256), 256));
  return cuda::LaunchInstance::make(std::move(out));
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
  configs.insert(thin ? configs.begin() : configs.end(), {"way=direct", cuda::direct_guess_ms(c, gpu)});
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
    .takes = "convolutions on a GPU with their epilogue, one to three dimensions, groups",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f32[2,32,9,7]; const w: f32[20,16,3,3] = seeded(0.1, 1); const b: f32[20] = "
                "seeded(0.5, 2); y = conv(x, w, b) {pads=[1,2,1,2], strides=[2,1], group=2}; z = relu(y); output z }",
                "graph { input x: f32[2,32,6,8]; const w: f32[24,32,1,1] = seeded(0.1, 1); y = conv(x, w); output y }"},
}};

}  // namespace peri::kernels
