// Kernel cuda_squeeze: two pointwise convolutions of an image of one pixel, the second of which alone reads the first,
// with what follows both: the factors of a squeeze-and-excite block in one launch, and where the image that they
// belong to stands at hand, its product with them. Each block of threads makes all of the narrow middle for itself, in
// shared memory, and a slice of the factors from it.
#include <algorithm>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/entry.hpp"
#include "kernels/cuda/code/layouts.hpp"
#include "kernels/cuda/code/rows.hpp"
#include "kernels/cuda/code/squeeze_shape.hpp"
#include "kernels/match/epilogue_match.hpp"
#include "kernels/match/part.hpp"

namespace peri::kernels {
namespace {
using cuda::ConvShape;
using cuda::KernelLaunch;
using cuda::Signature;

constexpr int64_t kMaxChannels = 4096, kMaxMiddle = 1024;  // floats of shared memory
constexpr int64_t kEach[] = {8, 32, 128};                  // results of a block
constexpr int64_t kMaxEach = 4096;                         // as many as there are at most
constexpr int kThreads = 256;                              // of a block: eight warps, a result each at a time

constexpr std::string_view kKernel = R"(
PERI_DEVICE float peri_dot(const PERI_STORED* const w, const float* const x, const int count, const bool wide, float* s) {
  const int lane = threadIdx.x % 32;
  float v = 0.0f;
  if (wide) {
    for (int c = lane * 8; c < count; c += 32 * 8) {
      float own[8];
      PERI_LOAD_8(w + c, own);
#pragma unroll
      for (int e = 0; e < 8; ++e) v = fmaf(own[e], x[c + e], v);
    }
  } else {
    for (int c = lane; c < count; c += 32) v = fmaf(PERI_LOAD(w[c]), x[c], v);
  }
  return peri_block_sum(v, s);
}
PERI_KERNEL __launch_bounds__(256, 2) peri_squeeze(PERI_PARAMETERS) {
  PERI_SHARED float x[PERI_CHANNELS];
  PERI_SHARED float middle[PERI_MIDDLE];
  PERI_SHARED float factor[PERI_EACH];
  float* const s = 0;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const PERI_INDEX image = blockIdx.x / PERI_SLICES;
  const int slice = (int)(blockIdx.x % PERI_SLICES);
  const bool aligned = PERI_ALIGNED;
  for (int c = threadIdx.x; c < PERI_CHANNELS; c += 256) x[c] = PERI_LOAD(PERI_X[image * PERI_CHANNELS + c]);
  __syncthreads();
  for (int r = warp; r < PERI_MIDDLE; r += 8) {
    float v = peri_dot(PERI_W + r * PERI_CHANNELS, x, PERI_CHANNELS, aligned && PERI_CHANNELS % 8 == 0, s);
    v += PERI_B(r);
    if (lane == 0) middle[r] = PERI_BETWEEN;
  }
  __syncthreads();
  const int begin = slice * PERI_EACH, end = begin + PERI_EACH < PERI_RESULTS ? begin + PERI_EACH : PERI_RESULTS;
  for (int r = begin + warp; r < end; r += 8) {
    const float v = peri_dot(PERI_V + r * PERI_MIDDLE, middle, PERI_MIDDLE, aligned && PERI_MIDDLE % 8 == 0, s) + PERI_C(r);
#if PERI_SCALES
    if (lane == 0) factor[r - begin] = PERI_BEHIND;
#else
    if (lane == 0) peri_finish(image * PERI_RESULTS + r, v, PERI_PASS);
#endif
  }
#if PERI_SCALES
  __syncthreads();
  const bool wide = aligned && PERI_RESULTS % 8 == 0;  // so is the slice, but for the last
  const int chunk = wide ? 8 : 1, chunks = (end - begin) / chunk;
  for (PERI_INDEX k = threadIdx.x; k < PERI_PIXELS * chunks; k += 256) {
    const int r = (int)(k % chunks) * chunk;
    const PERI_INDEX i = (image * PERI_PIXELS + k / chunks) * PERI_RESULTS + begin + r;
    if (wide) {
      float own[8];
      PERI_LOAD_8(PERI_IMAGE + i, own);
#pragma unroll
      for (int e = 0; e < 8; ++e) own[e] *= factor[r + e];
      PERI_STORE_8(PERI_OUT + i, own);
    } else {
      PERI_OUT[i] = PERI_STORE(PERI_LOAD(PERI_IMAGE[i]) * factor[r]);
    }
  }
#endif
}
)";

struct Plan {
  ConvShape first, second;
  int64_t slices = 1, pixels = 0;  // of the image, if there is one
  int64_t stored_bytes = 4;        // of an element
  std::vector<KernelLaunch> launches = {};
};

// The product with the image: the text's names for it.
Status scale_text(const Problem& p, const cuda::SqueezeParts& at, DType type, Signature* s, std::string* body) {
  const ir::Value& out = *p.graph->outputs[0];
  if (at.image->type.dtype != type || out.type.dtype != type) return refused("an image of another type");
  const ir::Layout last = cuda::channels_last(out.type.rank());
  if (!(out.type.layout == last) || !(at.image->type.layout == last)) return refused("another layout");
  PERI_ASSIGN(const std::string image, s->value(p, *at.image));
  PERI_ASSIGN(const std::string to, s->output(p, 0));
  *body += "#define PERI_IMAGE " + image + "\n#define PERI_OUT " + to + "\n#define PERI_PIXELS " +
           s->size(cuda::elements_of(std::span<const int64_t>(dims_of(out)).subspan(2))) + "\n#define PERI_STORE(E) " +
           cuda::stored(type, "(E)") + "\n#define PERI_STORE_8(TO, FROM) " + cuda::store_wide(8, type, "TO", "FROM") +
           "\n";
  return Ok{};
}

Result<Plan> plan(const Problem& p, int64_t each) {
  PERI_ASSIGN(const cuda::SqueezeParts at, cuda::parted_squeeze(*p.graph, 0));
  const ir::Graph head = part_of(*p.graph, 0, at.second, nullptr, at.middle),
                  tail = part_of(*p.graph, at.second, at.end, at.middle, at.result);
  const Problem one{&head, p.constant};
  std::vector<bool> constant = p.constant;
  constant.push_back(false);
  const Problem two{&tail, constant};
  Plan out;
  PERI_ASSIGN(out.first, cuda::read_one_pixel(one));
  PERI_ASSIGN(out.second, cuda::read_one_pixel(two));
  const ir::Node &a = one.anchor(), &b = two.anchor();
  if (b.in(0) != tail.inputs.back()) return refused("the second convolution does not read the first");
  const DType type = a.in(0)->type.dtype;
  out.stored_bytes = dtype_bits(type) / 8;
  for (const ir::Node* n : {&a, &b})
    for (const ir::Value* v : n->inputs)
      if (v && v->type.dtype != type) return refused("operands of several types");
  if (out.first.channels > kMaxChannels || out.first.outputs > kMaxMiddle)
    return refused("more channels than shared memory holds");
  PERI_ASSIGN(const std::string expression, cuda::behind_product(head));
  Signature s;
  std::string body;
  const auto define = [&](const char* name, const std::string& value) {
    body += std::string("#define PERI_") + name + " " + value + "\n";
  };
  PERI_ASSIGN(const std::string x, s.value(one, *a.in(0)));
  PERI_ASSIGN(const std::string w, s.value(one, *a.in(1)));
  PERI_ASSIGN(const std::string v, s.value(two, *b.in(1)));
  PERI_ASSIGN(const std::string stored, cuda::stored_type(type));
  out.slices = (out.second.outputs + each - 1) / each;
  if (at.image) {
    PERI_ASSIGN(const std::string factor, cuda::behind_product(tail));
    define("BEHIND", factor);
    PERI_TRY(scale_text(p, at, type, &s, &body));
    out.pixels = cuda::elements_of(std::span<const int64_t>(dims_of(*at.image)).subspan(2));
  }
  define("SCALES", at.image ? "1" : "0");
  define("X", x);
  define("W", w);
  define("V", v);
  define("STORED", stored);
  define("LOAD(E)", cuda::loaded(type, "E"));
  define("LOAD_8(FROM, TO)", cuda::load_wide(8, type, "FROM", "TO"));
  define("CHANNELS", std::to_string(out.first.channels));
  define("MIDDLE", std::to_string(out.first.outputs));
  define("RESULTS", std::to_string(out.second.outputs));
  define("SLICES", std::to_string(out.slices));
  define("EACH", std::to_string(each));
  define("BETWEEN", expression);
  define("ALIGNED", "(" + s.aligned() + ")");
  PERI_ASSIGN(const std::string first_bias, cuda::bias_of(one, a, "PERI_B", &s));
  PERI_ASSIGN(const std::string second_bias, cuda::bias_of(two, b, "PERI_C", &s));
  std::string finish;
  if (!at.image) {
    PERI_ASSIGN(finish, cuda::finish_any_text(two, true, &s));
  }
  body += first_bias + second_bias + cuda::block_text(32) + finish + std::string(kKernel);
  const int64_t blocks = out.first.images * out.slices;
  if (blocks > cuda::kMaxBlocks) return refused("more parts than a grid has blocks");
  if (blocks == 0) return out;
  out.launches.push_back(s.launch("peri_squeeze", s.text(cuda::most_elements(p), body), blocks, kThreads));
  return out;
}

// A block reads all weights of the first and its slice of the second by itself, at what one multiprocessor gets from
// L2; as many as there are multiprocessors run at once. Round constants, not fitted: see launch.hpp.
double guess_ms(const Plan& p, int multiprocessors) {
  constexpr double kLaunchNs = 1200, kLatencyNs = 1200, kBytesPerNs = 60;
  const auto size = [](int64_t v) { return static_cast<double>(v); };
  const double bytes =
      size(p.stored_bytes) * (size(p.first.channels) * size(p.first.outputs) +
                              size(p.second.outputs) * (size(p.second.channels) + 2 * size(p.pixels)) / size(p.slices));
  const auto waves = static_cast<double>((p.first.images * p.slices + multiprocessors - 1) / multiprocessors);
  return (kLaunchNs + std::max(waves, 1.0) * (kLatencyNs + bytes / kBytesPerNs)) / 1e6;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_ASSIGN(const cuda::SqueezeParts at, cuda::parted_squeeze(*p.graph, 0));
  Offer o = cuda::plain_offer(p)[0];
  const size_t rank = p.graph->outputs[0]->type.rank();
  ir::Graph g = p.graph->clone();
  if (at.image) {
    const auto image = static_cast<size_t>(input_index(*p.graph, at.image));
    o.inputs[image] = o.outputs[0] = cuda::channels_last(rank);
    g.inputs[image]->type.layout = g.outputs[0]->type.layout = cuda::channels_last(rank);
  }
  std::vector<Offer> out;
  for (const int64_t each : kEach) {
    PERI_ASSIGN(const Plan made, plan({&g, p.constant}, each));
    if (!out.empty() && made.slices == 1 && each / 4 >= made.second.outputs) continue;
    out.push_back(o);
    out.back().config = format("each=%lld", static_cast<long long>(each));
    out.back().guess_ms = guess_ms(made, cuda::limits_of(target).multiprocessors);
  }
  std::stable_sort(out.begin(), out.end(), [](const Offer& a, const Offer& b) { return a.guess_ms < b.guess_ms; });
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext&) {
  PERI_ASSIGN(const int64_t each, config_int(config, "each", 8, kMaxEach, 8));
  if (each % 8 != 0) return invalid("bad configuration").but_found(std::string(config));
  PERI_ASSIGN(Plan made, plan(p, each));
  return cuda::LaunchInstance::make(std::move(made.launches));
}
}  // namespace

extern const Entry cuda_squeeze_entry;
const Entry cuda_squeeze_entry{{
    .name = "cuda_squeeze",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes =
        "two pointwise convolutions of one pixel, one behind the other, on a GPU as one launch, with their epilogue "
        "or their product with an image",
    .offer = offer,
    .instantiate = instantiate,
    .samples =
        {"graph { input x: f16[2,72,1,1]; const w: f16[24,72,1,1] = seeded(0.2, 1); const b: f16[24] = seeded(0.5, 2); "
         "const v: f16[72,24,1,1] = seeded(0.3, 3); const c: f16[72] = seeded(0.5, 4); m = conv(x, w, b); t = relu(m); "
         "y = conv(t, v, c); z = hard_sigmoid(y); output z }",
         "graph { input x: bf16[3,270,1,1]; const w: bf16[10,270,1,1] = seeded(0.1, 1); "
         "const b: bf16[10] = seeded(0.5, 2); const v: bf16[270,10,1,1] = seeded(0.3, 3); m = conv(x, w, b); "
         "s = sigmoid(m); t = mul(m, s); y = conv(t, v); z = sigmoid(y); output z }",
         "graph { input x: f32[1,960,1,1]; const w: f32[240,960,1,1] = seeded(0.05, 1); "
         "const v: f32[960,240,1,1] = seeded(0.1, 3); const c: f32[960] = seeded(0.5, 4); m = conv(x, w); "
         "t = hard_swish(m); y = conv(t, v, c); output y }",
         "graph { input x: f16[2,72,1,1]; input i: f16[2,72,9,7]; const w: f16[24,72,1,1] = seeded(0.2, 1); "
         "const b: f16[24] = seeded(0.5, 2); const v: f16[72,24,1,1] = seeded(0.3, 3); const c: f16[72] = "
         "seeded(0.5, 4); m = conv(x, w, b); t = relu(m); y = conv(t, v, c); z = hard_sigmoid(y); o = mul(z, i); "
         "output o }",
         "graph { input x: bf16[1,270,1,1]; input i: bf16[1,270,5,3]; const w: bf16[10,270,1,1] = seeded(0.1, 1); "
         "const v: bf16[270,10,1,1] = seeded(0.3, 3); m = conv(x, w); s = sigmoid(m); t = mul(m, s); y = conv(t, v); "
         "z = sigmoid(y); o = mul(i, z); output o }"},
}};

}  // namespace peri::kernels
