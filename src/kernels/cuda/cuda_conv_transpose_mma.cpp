// Kernel cuda_conv_transpose_mma: transposed convolutions of float16 or bfloat16 whose windows do not overlap (kernel
// as large as the stride) on the tensor cores of a GPU since sm_80, with the element-wise chain after them: a product
// of pixels with all taps, each stored at its output position. Images have their channels last.
#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/layouts.hpp"
#include "kernels/cuda/code/tiles.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
extern const Entry cuda_conv_transpose_mma_entry;

namespace {
using cuda::Signature;
using cuda::TiledProduct;
constexpr size_t kMaxConfigs = 4;  // for each of three batches

// a: pixels by channels. b: weights, packed as [tap, output][channel].
constexpr std::string_view kOperands = R"(
struct peri_a_line { PERI_INDEX at; bool there; };
struct peri_a_step { PERI_INDEX at; bool there; };
typedef peri_a_line peri_b_line;
typedef peri_a_step peri_b_step;
PERI_DEVICE peri_a_line peri_a_line_of(const PERI_INDEX batch, const PERI_INDEX m, PERI_PARAMETERS) {
  const peri_a_line out = {m * PERI_K, m < PERI_M};
  return out;
}
PERI_DEVICE peri_b_line peri_b_line_of(const PERI_INDEX batch, const PERI_INDEX n, PERI_PARAMETERS) {
  const peri_b_line out = {n * PERI_K, PERI_WHOLE_N || n < PERI_N};
  return out;
}
PERI_DEVICE peri_a_step peri_a_step_of(const PERI_INDEX batch, const PERI_INDEX k, PERI_PARAMETERS) {
  const peri_a_step out = {k, PERI_WHOLE_K || k < PERI_K};
  return out;
}
PERI_DEVICE peri_b_step peri_b_step_of(const PERI_INDEX batch, const PERI_INDEX k, PERI_PARAMETERS) {
  return peri_a_step_of(batch, k, PERI_PASS);
}
PERI_DEVICE const unsigned short* peri_a_from(const peri_a_line& line, const peri_a_step& step, bool* there, PERI_PARAMETERS) {
  *there = line.there && step.there;
  return PERI_X + (line.at + step.at);
}
PERI_DEVICE const unsigned short* peri_b_from(const peri_b_line& line, const peri_b_step& step, bool* there, PERI_PARAMETERS) {
  *there = line.there && step.there;
  return PERI_WEIGHTS + (line.at + step.at);
}
PERI_DEVICE PERI_INDEX peri_place(const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {
  const PERI_INDEX tap = n / PERI_OUTPUTS, w = m % PERI_IN_W, h = m / PERI_IN_W;  // rows of all images
  return ((h * PERI_STRIDE_H + tap / PERI_STRIDE_W) * (PERI_IN_W * PERI_STRIDE_W) + w * PERI_STRIDE_W + tap % PERI_STRIDE_W) *
             PERI_OUTPUTS + n % PERI_OUTPUTS;
}
#define PERI_COLUMN 0
PERI_DEVICE float peri_sum(const float v, const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {
  return v + peri_bias(n % PERI_OUTPUTS, PERI_PASS);
}
PERI_DEVICE void peri_sum_8(float* v, const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {
#pragma unroll
  for (int e = 0; e < 8; ++e) v[e] = peri_sum(v[e], batch, m, n + e, PERI_PASS);
}
)";

struct Read {
  TiledProduct product;
  Signature signature;
  int64_t outputs = 0, taps = 1;
  int weights = -1;
};

Status check(const ir::Node& n, const std::vector<int64_t>& x, const std::vector<int64_t>& w,
             const std::vector<int64_t>& y) {
  if (x.size() < 3 || x.size() > 4 || w.size() != x.size()) return refused("takes one or two spatial dimensions");
  if (n.i("group", 1) != 1) return refused("groups");
  const size_t rank = x.size() - 2;
  const std::vector<int64_t> strides = n.ints("strides", std::vector<int64_t>(rank, 1));
  if (strides.size() != rank || w[0] != x[1]) return refused("bad attributes");
  // Results of that size leave no room for pads, dilations or gaps between windows.
  for (size_t k = 0; k < rank; ++k)
    if (w[2 + k] != strides[k] || y[2 + k] != x[2 + k] * strides[k]) return refused("windows that overlap");
  for (const int64_t pad : n.ints("pads", {}))
    if (pad != 0) return refused("pads");
  for (const int64_t d : n.ints("dilations", {}))
    if (d != 1) return refused("dilations");
  if (x[1] % 8 != 0 || w[1] % 8 != 0) return refused("channels that are not a multiple of 8");
  return Ok{};
}

// Of a problem whose values state their layouts.
Result<Read> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "conv_transpose") return refused("not a transposed convolution");
  const DType type = n.in(0)->type.dtype;
  if ((type != DType::kF16 && type != DType::kBF16) || n.in(1)->type.dtype != type)
    return refused("takes two operands of f16 or of bf16").but_found(std::string(dtype_name(type)));
  const std::vector<int64_t> x = dims_of(*n.in(0)), w = dims_of(*n.in(1)), y = dims_of(*n.out());
  PERI_TRY(check(n, x, w, y));
  Read r;
  r.weights = input_index(*p.graph, n.in(1));
  const int image = input_index(*p.graph, n.in(0));
  if (image < 0 || p.constant[static_cast<size_t>(image)]) return refused("its image is not an argument");
  if (r.weights < 0 || !p.constant[static_cast<size_t>(r.weights)]) return refused("its weights are not constant");
  const ir::Layout last = cuda::channels_last(x.size());
  if (!(n.in(0)->type.layout == last) || !(p.graph->outputs[0]->type.layout == last)) return refused("another layout");
  Signature& s = r.signature;
  TiledProduct& out = r.product;
  int64_t pixels = 1;
  for (size_t k = 2; k < x.size(); ++k) {
    pixels *= x[k];
    r.taps *= w[k];
  }
  r.outputs = w[1];
  out.type = type;
  out.m = x[0] * pixels;
  out.n = r.outputs * r.taps;
  out.k = x[1];
  out.a_wide = out.b_wide = out.c_wide = true;
  out.usual_m = {pixels, 8 * pixels, 64 * pixels};
  PERI_ASSIGN(const std::string from, s.value(p, *n.in(0)));
  std::string bias = "0.0f";
  if (n.in(2)) {
    PERI_ASSIGN(const std::string name, s.value(p, *n.in(2)));
    bias = cuda::loaded(n.in(2)->type.dtype, name + "[output]");
  }
  std::string& text = out.functions;
  const auto define = [&](const char* name, const std::string& value) {
    text += std::string("#define PERI_") + name + " " + value + "\n";
  };
  define("X", from);
  define("WEIGHTS", s.packed(0));
  define("OUTPUTS", std::to_string(r.outputs));
  define("STRIDE_W", std::to_string(w.back()));
  define("STRIDE_H", std::to_string(x.size() == 4 ? w[2] : 1));
  define("IN_W", s.size(x.back()));
  text += "PERI_DEVICE float peri_bias(const PERI_INDEX output, PERI_PARAMETERS) { return " + bias + "; }\n";
  PERI_ASSIGN(const std::string finish, cuda::finish_held_text(p, &s));
  text += std::string(kOperands) + finish;
  return r;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  Offer o = cuda::plain_offer(p)[0];
  const ir::Layout last = cuda::channels_last(p.graph->outputs[0]->type.rank());
  const ir::Graph g = cuda::with_layouts(p, last, last, &o);
  PERI_ASSIGN(const Read r, read({&g, p.constant}));
  return cuda::tile_offers(o, r.product, cuda::limits_of(target), kMaxConfigs);
}

// From [channel, output, tap] to [tap, output, channel].
Result<Tensor> packed_weights(const Tensor& w, int64_t channels, int64_t outputs, int64_t taps) {
  PERI_ASSIGN(Tensor out, Tensor::zeros(w.dtype(), {outputs * taps, channels}));
  const auto* from = reinterpret_cast<const uint16_t*>(w.bytes().data());
  auto* to = reinterpret_cast<uint16_t*>(const_cast<std::byte*>(out.bytes().data()));
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t t = 0; t < taps; ++t) to[(t * outputs + o) * channels + c] = from[(c * outputs + o) * taps + t];
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config,
                                              const InstantiateContext& context) {
  PERI_ASSIGN(const int64_t tk, setting(cuda_conv_transpose_mma_entry.kernel, config, "tk"));
  PERI_ASSIGN(const int64_t stages, setting(cuda_conv_transpose_mma_entry.kernel, config, "stages"));
  PERI_ASSIGN(Read r, read(p));
  r.product.packed = {
      {static_cast<size_t>(r.weights), [channels = r.product.k, outputs = r.outputs, taps = r.taps](const Tensor& w) {
         return packed_weights(w, channels, outputs, taps);
       }}};
  return cuda::tile_instance(r.product, config, tk, stages, cuda::most_elements(p), cuda::limits_of(*context.target),
                             &r.signature);
}
}  // namespace

const Entry cuda_conv_transpose_mma_entry{{
    .name = "cuda_conv_transpose_mma",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "transposed convolutions of f16 and bf16 without overlap on a GPU's tensor cores with their epilogue",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f16[2,24,5,4]; const w: f16[24,16,2,2] = seeded(0.2, 1); y = conv_transpose(x, w) "
                "{strides=[2,2]}; output y }",
                "graph { input x: bf16[1,16,3,5]; const w: bf16[16,8,3,1] = seeded(0.2, 1); const b: bf16[8] = "
                "seeded(0.5, 2); y = conv_transpose(x, w, b) {strides=[3,1]}; z = relu(y); output z }",
                "graph { input x: f16[3,32,7]; const w: f16[32,8,4] = seeded(0.2, 1); y = conv_transpose(x, w) "
                "{strides=[4]}; output y }",
                "graph { input x: f16[1,8,6,6]; const w: f16[8,40,2,2] = seeded(0.2, 1); y = conv_transpose(x, w) "
                "{strides=[2,2]}; output y }"},
    .tunables = cuda::tile_tunables(),
}};

}  // namespace peri::kernels
