// Kernel cuda_depthwise: depthwise convolutions of float16 or bfloat16 with channels last, on a GPU, with the
// element-wise chain after them: a thread has two channels and a small tile of pixels, weights in registers.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/conv_shape.hpp"
#include "kernels/cuda/code/layouts.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
extern const Entry cuda_depthwise_entry;

namespace {
using cuda::ConvShape;
using cuda::KernelLaunch;
using cuda::Signature;

constexpr int64_t kThreads = 128;  // four warps: small images make blocks enough
struct Tile {
  int h, w;
};
constexpr Tile kTiles[] = {{1, 1}, {1, 2}, {1, 4}, {2, 4}, {2, 7}, {4, 4}, {4, 7}};

constexpr std::string_view kKernel = R"(
// Whether a row of the window's reach is under a tap of an output row of the tile, and under which.
PERI_DEVICE bool peri_under(const int y, const int r) {
  const int k = y - r * PERI_STRIDE_H;
  return k >= 0 && k % PERI_DILATION_H == 0 && k / PERI_DILATION_H < PERI_KERNEL_H;
}
PERI_KERNEL __launch_bounds__(PERI_T) peri_depthwise(PERI_PARAMETERS) {
  enum { kReachH = (PERI_TH - 1) * PERI_STRIDE_H + (PERI_KERNEL_H - 1) * PERI_DILATION_H + 1 };
  enum { kReachW = (PERI_TW - 1) * PERI_STRIDE_W + (PERI_KERNEL_W - 1) * PERI_DILATION_W + 1 };
  const PERI_INDEX tiles_w = (PERI_OUT_W + PERI_TW - 1) / PERI_TW, tiles_h = (PERI_OUT_H + PERI_TH - 1) / PERI_TH;
  PERI_INDEX rest = blockIdx.x;
  const int channel = (int)((rest % PERI_ACROSS) * PERI_LANES + threadIdx.x % PERI_LANES) * 2; rest /= PERI_ACROSS;
  PERI_INDEX tile = rest * (PERI_T / PERI_LANES) + threadIdx.x / PERI_LANES;
  if (channel >= PERI_CHANNELS || tile >= PERI_IMAGES * tiles_h * tiles_w) return;
  const int x0 = (int)(tile % tiles_w) * PERI_TW; tile /= tiles_w;
  const int y0 = (int)(tile % tiles_h) * PERI_TH;
  const PERI_INDEX image = tile / tiles_h;
  unsigned weight[PERI_KERNEL_H * PERI_KERNEL_W];
#pragma unroll
  for (int k = 0; k < PERI_KERNEL_H * PERI_KERNEL_W; ++k)
    weight[k] = *(const unsigned*)(PERI_WEIGHTS + k * PERI_CHANNELS + channel);
  float sum[PERI_TH][PERI_TW][2];
#pragma unroll
  for (int r = 0; r < PERI_TH; ++r)
#pragma unroll
    for (int c = 0; c < PERI_TW; ++c) sum[r][c][0] = 0.0f, sum[r][c][1] = 0.0f;
#pragma unroll
  for (int y = 0; y < kReachH; ++y) {
    bool under = false;
#pragma unroll
    for (int r = 0; r < PERI_TH; ++r) under = under || peri_under(y, r);
    const int h = y0 * PERI_STRIDE_H - PERI_PAD_H + y;
    if (!under || (unsigned)h >= PERI_IN_H) continue;
    const PERI_INDEX base = (image * PERI_IN_H + h) * PERI_IN_W;
    float line[kReachW][2];
#pragma unroll
    for (int x = 0; x < kReachW; ++x) {
      const int w = x0 * PERI_STRIDE_W - PERI_PAD_W + x;
      line[x][0] = line[x][1] = 0.0f;
      if ((unsigned)w < PERI_IN_W) PERI_LOAD_2(PERI_X + (base + w) * PERI_CHANNELS + channel, line[x]);
    }
#pragma unroll
    for (int r = 0; r < PERI_TH; ++r) {
      if (!peri_under(y, r)) continue;
      const int row = (y - r * PERI_STRIDE_H) / PERI_DILATION_H * PERI_KERNEL_W;
#pragma unroll
      for (int k = 0; k < PERI_KERNEL_W; ++k) {
        const float low = PERI_LOW(weight[row + k]), high = PERI_HIGH(weight[row + k]);
#pragma unroll
        for (int c = 0; c < PERI_TW; ++c) {
          const float* const at = line[c * PERI_STRIDE_W + k * PERI_DILATION_W];
          sum[r][c][0] = fmaf(at[0], low, sum[r][c][0]), sum[r][c][1] = fmaf(at[1], high, sum[r][c][1]);
        }
      }
    }
  }
  const float bias[2] = {peri_bias(channel, PERI_PASS), peri_bias(channel + 1, PERI_PASS)};
#pragma unroll
  for (int r = 0; r < PERI_TH; ++r)
#pragma unroll
    for (int c = 0; c < PERI_TW; ++c) {
      if (y0 + r >= PERI_OUT_H || x0 + c >= PERI_OUT_W) continue;
      float v[2] = {sum[r][c][0] + bias[0], sum[r][c][1] + bias[1]};
      peri_finish_2(((image * PERI_OUT_H + y0 + r) * PERI_OUT_W + x0 + c) * PERI_CHANNELS + channel, v, PERI_PASS);
    }
}
)";

Result<ConvShape> read(const Problem& p) {
  PERI_ASSIGN(const ConvShape c, cuda::read_conv(p));
  const ir::Node& n = p.anchor();
  const DType type = n.in(0)->type.dtype;
  if ((type != DType::kF16 && type != DType::kBF16) || n.in(1)->type.dtype != type)
    return refused("takes two operands of f16 or of bf16").but_found(std::string(dtype_name(type)));
  if (c.channels != 1 || c.outputs != 1 || c.groups % 2 != 0)
    return refused("takes depthwise ones of even channels only");
  if (c.kernel[0] != 1 || c.in[0] != 1 || c.out[0] != 1 || c.pad[0] != 0) return refused("takes one or two dimensions");
  if (c.taps() > 49 || c.dilation[1] > 2 || c.dilation[2] > 2 || c.stride[1] > 4 || c.stride[2] > 4)
    return refused("windows of more than 49 taps, or far ones");
  const int x = input_index(*p.graph, n.in(0)), w = input_index(*p.graph, n.in(1));
  if (x < 0 || p.constant[static_cast<size_t>(x)]) return refused("its image is not an argument");
  if (w < 0 || !p.constant[static_cast<size_t>(w)]) return refused("its weights are not constant");
  return c;
}

int64_t lanes_of(const ConvShape& c) {
  return std::min<int64_t>(32, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(c.groups / 2))));
}
int64_t tiles_of(const ConvShape& c, Tile t) {
  return c.images * ((c.out[1] + t.h - 1) / t.h) * ((c.out[2] + t.w - 1) / t.w);
}

Result<std::vector<KernelLaunch>> plan(const Problem& p, const ConvShape& c, Tile tile, int64_t threads) {
  const ir::Node& n = p.anchor();
  const ir::Layout last = cuda::channels_last(n.in(0)->type.rank());
  if (!(n.in(0)->type.layout == last) || !(p.graph->outputs[0]->type.layout == last)) return refused("another layout");
  Signature s;
  std::string body;
  const auto define = [&](const std::string& name, const std::string& value) {
    body += "#define PERI_" + name + " " + value + "\n";
  };
  const char* const axis[] = {"D", "H", "W"};
  for (size_t d = 1; d < 3; ++d) {
    const std::string a(axis[d]);
    define("KERNEL_" + a, std::to_string(c.kernel[d]));
    define("STRIDE_" + a, std::to_string(c.stride[d]));
    define("DILATION_" + a, std::to_string(c.dilation[d]));
    define("PAD_" + a, std::to_string(c.pad[d]));
    define("IN_" + a, s.size(c.in[d]));
    define("OUT_" + a, s.size(c.out[d]));
  }
  const int64_t lanes = lanes_of(c), across = (c.groups / 2 + lanes - 1) / lanes;
  define("T", std::to_string(threads));
  define("CHANNELS", std::to_string(c.groups));
  define("LANES", std::to_string(lanes));
  define("ACROSS", std::to_string(across));
  define("IMAGES", s.size(c.images));
  define("TH", std::to_string(tile.h));
  define("TW", std::to_string(tile.w));
  PERI_ASSIGN(const std::string x, s.value(p, *n.in(0)));
  const bool bf16 = n.in(0)->type.dtype == DType::kBF16;
  define("X", x);
  define("WEIGHTS", s.packed(0));
  define("LOAD_2", bf16 ? "peri_load_2_bf16" : "peri_load_2_f16");
  define("LOW(W)", bf16 ? "peri_bits((W) << 16)" : "peri_from_f16((unsigned short)(W))");
  define("HIGH(W)", bf16 ? "peri_bits((W) & 0xffff0000u)" : "peri_from_f16((unsigned short)((W) >> 16))");
  std::string bias = "0.0f";
  if (n.in(2)) {
    PERI_ASSIGN(const std::string name, s.value(p, *n.in(2)));
    bias = cuda::loaded(n.in(2)->type.dtype, name + "[channel]");
  }
  body += "PERI_DEVICE float peri_bias(const int channel, PERI_PARAMETERS) { return " + bias + "; }\n";
  PERI_ASSIGN(const std::string finish, cuda::finish_wide_text(p, 2, &s));
  const int64_t rows = threads / lanes, blocks = across * ((tiles_of(c, tile) + rows - 1) / rows);
  if (blocks > cuda::kMaxBlocks) return refused("more tiles than a grid has blocks");
  std::vector<KernelLaunch> out;
  if (blocks > 0)
    out.push_back(s.launch("peri_depthwise", s.text(cuda::most_elements(p), body + finish + std::string(kKernel)),
                           blocks, static_cast<int>(threads)));
  return out;
}

// A guess (see launch.hpp): large tiles read each pixel seldom, small ones fill the GPU.
double guess_ms(const ConvShape& c, Tile t, int multiprocessors) {
  const auto reach = [&](int tile, size_t d) {
    return static_cast<double>((tile - 1) * c.stride[d] + (c.kernel[d] - 1) * c.dilation[d] + 1);
  };
  const double loads = reach(t.h, 1) * reach(t.w, 2), sums = 2.0 * t.h * t.w * static_cast<double>(c.taps());
  const double threads = static_cast<double>(tiles_of(c, t)) * static_cast<double>(c.groups) / 2;
  const double alone = 900 + 12 * loads + 2 * sums + 20.0 * t.h * t.w;
  const double all = threads * (2.5 * loads + sums + 8.0 * t.h * t.w) / (multiprocessors * 128 * 1.7) * 2;
  const double bytes =
      2 * static_cast<double>(c.images * c.groups) * static_cast<double>(c.in[1] * c.in[2] + c.out[1] * c.out[2]);
  return (1200 + std::max({alone, all, bytes / 2500})) / 1e6;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_ASSIGN(const ConvShape c, read(p));
  Offer o = cuda::plain_offer(p)[0];
  const ir::Layout last = cuda::channels_last(p.anchor().in(0)->type.rank());
  const ir::Graph g = cuda::with_layouts(p, last, last, &o);
  PERI_TRY(plan({&g, p.constant}, c, kTiles[0], kThreads));
  std::vector<Offer> out;
  for (const Tile t : kTiles) {
    out.push_back(o);
    out.back().config = format("th=%d tw=%d", t.h, t.w);
    out.back().guess_ms = guess_ms(c, t, cuda::limits_of(target).multiprocessors);
  }
  std::stable_sort(out.begin(), out.end(), [](const Offer& a, const Offer& b) { return a.guess_ms < b.guess_ms; });
  return out;
}

// [taps, channels], so that a thread's two lie together.
Result<Tensor> packed_weights(const Tensor& w, const ConvShape& c) {
  PERI_ASSIGN(Tensor out, Tensor::zeros(w.dtype(), {c.taps(), c.groups}));
  const auto* from = reinterpret_cast<const uint16_t*>(w.bytes().data());
  auto* to = reinterpret_cast<uint16_t*>(const_cast<std::byte*>(out.bytes().data()));
  for (int64_t channel = 0; channel < c.groups; ++channel)
    for (int64_t tap = 0; tap < c.taps(); ++tap) to[tap * c.groups + channel] = from[channel * c.taps() + tap];
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext&) {
  PERI_ASSIGN(const ConvShape c, read(p));
  PERI_ASSIGN(const int64_t th, config_int(config, "th", 1, 4, 1));
  PERI_ASSIGN(const int64_t tw, config_int(config, "tw", 1, 7, 1));
  const auto known = [&](Tile t) { return t.h == th && t.w == tw; };
  if (std::none_of(std::begin(kTiles), std::end(kTiles), known)) return invalid("no tile of this size");
  PERI_ASSIGN(int64_t threads, setting(cuda_depthwise_entry.kernel, config, "threads"));
  if (threads == 0) threads = kThreads;
  PERI_ASSIGN(std::vector<KernelLaunch> launches, plan(p, c, {static_cast<int>(th), static_cast<int>(tw)}, threads));
  const auto w = static_cast<size_t>(input_index(*p.graph, p.anchor().in(1)));
  return cuda::LaunchInstance::make(std::move(launches), 0,
                                    {{w, [c](const Tensor& weight) { return packed_weights(weight, c); }}});
}
}  // namespace

const Entry cuda_depthwise_entry{{
    .name = "cuda_depthwise",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "depthwise convolutions of f16 and bf16 with channels last on a GPU with their epilogue",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f16[2,24,9,8]; const w: f16[24,1,3,3] = seeded(0.3, 1); y = conv(x, w) "
                "{pads=[1,1,1,1], group=24}; output y }",
                "graph { input x: bf16[1,70,12,11]; const w: bf16[70,1,5,5] = seeded(0.3, 1); const b: bf16[70] = "
                "seeded(0.5, 2); y = conv(x, w, b) {pads=[2,2,2,2], strides=[2,2], group=70}; output y }",
                "graph { input x: f16[1,18,6,7]; const w: f16[18,1,3,3] = seeded(0.3, 1); y = conv(x, w) "
                "{dilations=[2,1], group=18}; z = hard_swish(y); output z }",
                "graph { input x: f16[2,20,13]; const w: f16[20,1,3] = seeded(0.3, 1); y = conv(x, w) {pads=[1,0], "
                "group=20}; output y }"},
    .tunables = {{"threads", "threads of a block", {256, 64}}},
}};

}  // namespace peri::kernels
