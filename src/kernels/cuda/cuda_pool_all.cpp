// Kernel cuda_pool_all: the mean or maximum over all pixels of images with channels last, on a GPU, with the
// element-wise chain after it: blocks reduce parts of the pixels, sums as in sums.hpp and in a fixed order.
#include <algorithm>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/layouts.hpp"
#include "kernels/cuda/code/sums.hpp"
#include "ops/entry.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;
constexpr int64_t kChannels = 128, kPixels = 256;  // of a block

constexpr std::string_view kKernel = R"(
PERI_KERNEL __launch_bounds__(256) peri_pool_parts(PERI_PARAMETERS) {
  PERI_SHARED R s[16][128];
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  PERI_INDEX rest = blockIdx.x;
  const int first = (int)(rest % PERI_ACROSS) * 128; rest /= PERI_ACROSS;
  const PERI_INDEX part = rest % PERI_SHARES, image = rest / PERI_SHARES;
  const PERI_INDEX each = (PERI_PIXELS + PERI_SHARES - 1) / PERI_SHARES, begin = part * each;
  const PERI_INDEX end = begin + each < PERI_PIXELS ? begin + each : PERI_PIXELS;
  const int channel = first + x * 8;
  R v[8];
#pragma unroll
  for (int e = 0; e < 8; ++e) v[e] = PERI_START;
  if (channel < PERI_CHANNELS) {
#pragma unroll 4
    for (PERI_INDEX pixel = begin + y; pixel < end; pixel += 16) {
      float more[8];
      PERI_LOAD(PERI_X + (image * PERI_PIXELS + pixel) * PERI_CHANNELS + channel, more);
#pragma unroll
      for (int e = 0; e < 8; ++e) v[e] = peri_join(v[e], (R)more[e]);
    }
  }
#pragma unroll
  for (int e = 0; e < 8; ++e) s[y][x * 8 + e] = v[e];
  __syncthreads();
  const int c = first + threadIdx.x;
  if (threadIdx.x >= 128 || c >= PERI_CHANNELS) return;
  R all = s[0][threadIdx.x];
#pragma unroll
  for (int k = 1; k < 16; ++k) all = peri_join(all, s[k][threadIdx.x]);
#if PERI_SHARES_ARE_ONE
  peri_finish(image * PERI_CHANNELS + c, peri_end(all, PERI_PASS), PERI_PASS);
#else
  ((R*)PERI_PARTS)[(image * PERI_SHARES + part) * PERI_CHANNELS + c] = all;
#endif
}
)";
constexpr std::string_view kJoin = R"(
PERI_KERNEL __launch_bounds__(128) peri_pool_join(PERI_PARAMETERS) {
  const PERI_INDEX i = (PERI_INDEX)blockIdx.x * 128 + threadIdx.x;
  if (i >= PERI_RESULTS) return;
  const PERI_INDEX image = i / PERI_CHANNELS, c = i % PERI_CHANNELS;
  R all = PERI_START;
  for (PERI_INDEX part = 0; part < PERI_SHARES; ++part)
    all = peri_join(all, ((const R*)PERI_PARTS)[(image * PERI_SHARES + part) * PERI_CHANNELS + c]);
  peri_finish(i, peri_end(all, PERI_PASS), PERI_PASS);
}
)";

// Whether the node joins all pixels and nothing else.
Status check(const ir::Node& n) {
  if (n.op == "global_average_pool" || n.op == "global_max_pool") return Ok{};
  if (n.op != "reduce_mean" && n.op != "reduce_max") return refused("not a pooling over all pixels");
  if (!n.in(1)) return refused("axes that are not pixels");
  const ops::InferContext context{n, {}, {}, nullptr};
  PERI_ASSIGN(std::vector<int64_t> axes, context.constants(1, "axes"));
  const auto rank = static_cast<int64_t>(n.in(0)->type.rank());
  for (int64_t& a : axes) a += a < 0 ? rank : 0;
  std::sort(axes.begin(), axes.end());
  std::vector<int64_t> pixels;
  for (int64_t a = 2; a < rank; ++a) pixels.push_back(a);
  return axes == pixels ? Status(Ok{}) : refused("axes that are not pixels");
}

struct Plan {
  std::vector<KernelLaunch> launches;
  size_t workspace = 0;
};

Result<Plan> plan(const Problem& p, const cuda::GpuLimits& gpu) {
  const ir::Node& n = p.anchor();
  const ir::Type& x = n.in(0)->type;
  if (x.rank() < 3) return refused("takes images only");
  PERI_TRY(check(n));
  if (x.dtype != DType::kF32 && x.dtype != DType::kF16 && x.dtype != DType::kBF16)
    return refused("takes f32, f16 and bf16 only").but_found(std::string(dtype_name(x.dtype)));
  const std::vector<int64_t> d = dims_of(*n.in(0));
  const int64_t pixels = cuda::elements_of(std::span(d).subspan(2));
  if (d[1] % 8 != 0 || pixels == 0) return refused("channels that are not a multiple of 8, or no pixels");
  if (!(x.layout == cuda::channels_last(x.rank())) || !p.graph->outputs[0]->type.layout.row_major())
    return refused("another layout");
  const bool max = n.op.ends_with("max") || n.op == "global_max_pool";
  const int64_t shares = std::clamp<int64_t>(pixels / kPixels, 1, 64), across = (d[1] + kChannels - 1) / kChannels;
  Signature s;
  std::string body;
  const auto define = [&](const char* name, const std::string& value) {
    body += std::string("#define PERI_") + name + " " + value + "\n";
  };
  PERI_ASSIGN(const std::string from, s.value(p, *n.in(0)));
  const char* const type = x.dtype == DType::kF32 ? "f32" : x.dtype == DType::kF16 ? "f16" : "bf16";
  define("X", from);
  define("LOAD", std::string("peri_load_8_") + type);
  define("ACROSS", s.size(across));
  define("SHARES", s.size(shares));
  define("PIXELS", s.size(pixels));
  define("CHANNELS", s.size(d[1]));
  define("RESULTS", s.size(d[0] * d[1]));
  define("SHARES_ARE_ONE", shares == 1 ? "1" : "0");
  define("START", max ? "(-peri_inf())" : "0.0f");
  if (shares > 1) define("PARTS", s.workspace());
  body += cuda::sums_text(x.dtype, gpu) + "typedef " + (max ? "float" : "peri_sum_type") + " R;\n" +
          "PERI_DEVICE R peri_join(const R a, const R b) { return " + (max ? "peri_max(a, b)" : "a + b") +
          "; }\nPERI_DEVICE float peri_end(const R v, PERI_PARAMETERS) { return " + (max ? "v" : "v / (R)PERI_PIXELS") +
          "; }\n";
  PERI_ASSIGN(const std::string finish, cuda::finish_any_text(p, true, &s));
  body += finish + std::string(kKernel) + std::string(shares > 1 ? kJoin : "");
  Plan out;
  const int64_t blocks = d[0] * shares * across, results = d[0] * d[1];
  if (blocks > cuda::kMaxBlocks) return refused("more parts than a grid has blocks");
  if (results == 0) return out;
  const std::string text = s.text(cuda::most_elements(p), body);
  out.launches.push_back(s.launch("peri_pool_parts", text, blocks, 256));
  if (shares > 1) {
    out.launches.push_back(s.launch("peri_pool_join", text, cuda::blocks_for(results, 128), 128));
    out.workspace = static_cast<size_t>(shares * results) * sizeof(double);
  }
  return out;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  if (!p.anchor().in(0) || p.anchor().in(0)->type.rank() < 3) return refused("takes images only");
  Offer o = cuda::plain_offer(p)[0];
  const ir::Graph g = cuda::with_layouts(p, cuda::channels_last(p.anchor().in(0)->type.rank()), {}, &o);
  PERI_TRY(plan({&g, p.constant}, cuda::limits_of(target)));
  return std::vector<Offer>{std::move(o)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& context) {
  PERI_ASSIGN(Plan made, plan(p, cuda::limits_of(*context.target)));
  return cuda::LaunchInstance::make(std::move(made.launches), made.workspace);
}
}  // namespace

extern const Entry cuda_pool_all_entry;
const Entry cuda_pool_all_entry{{
    .name = "cuda_pool_all",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "means and maxima over all pixels with channels last on a GPU, with their epilogue",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f16[2,24,9,8]; y = global_average_pool(x); output y }",
                "graph { input x: f32[2,136,3,5]; y = global_max_pool(x); output y }",
                "graph { input x: bf16[1,40,30,21]; y = global_average_pool(x); z = hard_sigmoid(y); output z }",
                "graph { input x: f16[2,16,7]; const a: i64[1] = [2]; y = reduce_mean(x, a) {keepdims=0}; output y }"},
}};

}  // namespace peri::kernels
