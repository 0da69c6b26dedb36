// Kernel cuda_squeeze: two pointwise convolutions of an image of one pixel, the second of which is the only user of the
// first, with their epilogues: the factors of a squeeze-and-excite block in one launch, and, if the scaled image is
// part of the region, its product with them. Each cluster of blocks, or each block without clusters, computes the whole
// narrow intermediate result in shared memory, and each block a slice of the factors from it.
#include <algorithm>
#include <bit>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/cluster.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/entry.hpp"
#include "kernels/cuda/code/layouts.hpp"
#include "kernels/cuda/code/rows.hpp"
#include "kernels/cuda/code/squeeze_shape.hpp"
#include "kernels/cuda/code/squeeze_text.hpp"
#include "kernels/cuda/code/sums.hpp"
#include "kernels/cuda/code/warp.hpp"
#include "kernels/match/epilogue_match.hpp"
#include "kernels/match/part.hpp"

namespace peri::kernels {
namespace {
using cuda::ConvShape;
using cuda::KernelLaunch;
using cuda::kSqueezeThreads;
using cuda::Signature;

constexpr int64_t kMaxChannels = 4096, kMaxMiddle = 1024;  // floats of shared memory
// No tunables: every number that could be set decides how many lanes add a product, and so its bits.
// Results per block, and per block of a cluster of the largest size. The choices in tests/whole/locks are among these;
// none of them is without the image, for which only the two best estimates are offered.
constexpr int64_t kEach[] = {8, 128}, kEachOfCluster[] = {16, 32};
constexpr size_t kMaxWithoutImage = 2;
constexpr int64_t kMaxEach = 4096;  // as many as there are at most

// Number of lanes that read a row of a product: as many as there are for all rows of a block, at least a whole cache
// line and at most the row's chunks of eight.
int64_t lanes_of(int64_t rows, int64_t count, int64_t least) {
  const auto floor = [](int64_t v) { return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(v))); };
  const auto ceil = [](int64_t v) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(v))); };
  const int64_t some = std::clamp(floor(std::max<int64_t>(kSqueezeThreads / rows, 1)), least, int64_t{32});
  return std::min(some, ceil((count + 7) / 8));
}

struct Plan {
  ConvShape first, second;
  int64_t blocks = 1, rows = 0;    // of a cluster, and of a block's share of the middle
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

// What each block and each lane has of the products: the text's names for it.
std::string shares_text(const Plan& p, int64_t each) {
  std::string out;
  const auto define = [&](const char* name, int64_t value) {
    out += std::string("#define PERI_") + name + " " + std::to_string(value) + "\n";
  };
  define("SLICES", p.slices);
  define("EACH", each);
  define("BLOCKS", p.blocks);
  define("ROWS", p.rows);
  define("LANES", lanes_of(p.rows, p.first.channels, 8));
  define("LANES_TWO", lanes_of(each, p.first.outputs, 4));
  return out;
}

Result<Plan> plan(const Problem& p, int64_t each, int64_t blocks, const cuda::GpuLimits& gpu) {
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
  if (out.first.channels == 0 || out.first.outputs == 0) return refused("no channels");
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
  out.blocks = blocks;
  out.rows = (out.first.outputs + blocks - 1) / blocks;
  out.slices = ((out.second.outputs + each - 1) / each + blocks - 1) / blocks * blocks;
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
  define("BETWEEN", expression);
  define("ALIGNED", "(" + s.aligned() + ")");
  PERI_ASSIGN(const std::string first_bias, cuda::bias_of(one, a, "PERI_B", &s));
  PERI_ASSIGN(const std::string second_bias, cuda::bias_of(two, b, "PERI_C", &s));
  std::string finish;
  if (!at.image) {
    PERI_ASSIGN(finish, cuda::finish_any_text(two, true, &s));
  }
  if (blocks > 1) body += std::string(cuda::warp_text()) + std::string(cuda::cluster_text());
  body += cuda::sums_text(type, gpu) + shares_text(out, each) + first_bias + second_bias + cuda::block_text(32) +
          finish + std::string(cuda::squeeze_text());
  const int64_t all = out.first.images * out.slices;
  if (all > cuda::kMaxBlocks) return refused("more parts than a grid has blocks");
  if (all == 0) return out;
  out.launches.push_back(s.launch("peri_squeeze", s.text(cuda::most_elements(p), body), all, kSqueezeThreads));
  out.launches.back().shared_bytes = 4 * ((out.first.outputs + 7) / 8 * 8 + each);
  out.launches.back().cluster = static_cast<int>(blocks);
  return out;
}

// A block reads its share of the weights of the first and its slice of the second alone, at the rate of one
// multiprocessor from L2; as many as there are multiprocessors run at once; clusters synchronise. Round constants, not
// fitted: see launch.hpp.
double guess_ms(const Plan& p, int multiprocessors) {
  constexpr double kLaunchNs = 1200, kAloneNs = 1200, kMeetNs = 400, kBytesPerNs = 60;
  const double latency = kAloneNs + (p.blocks > 1 ? kMeetNs : 0);
  const auto size = [](int64_t v) { return static_cast<double>(v); };
  const double bytes =
      size(p.stored_bytes) * (size(p.first.channels) * size(p.rows) +
                              size(p.second.outputs) * (size(p.second.channels) + 2 * size(p.pixels)) / size(p.slices));
  const int64_t waves = (p.first.images * p.slices + multiprocessors - 1) / multiprocessors;
  return (kLaunchNs + std::max(size(waves), 1.0) * (latency + bytes / kBytesPerNs)) / 1e6;
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
  const cuda::GpuLimits gpu = cuda::limits_of(target);
  const auto add = [&](int64_t each, int64_t blocks) -> Status {
    PERI_ASSIGN(const Plan made, plan({&g, p.constant}, each, blocks, gpu));
    out.push_back(o);
    out.back().config = format("each=%lld", static_cast<long long>(each));
    if (blocks > 1) out.back().config += format(" blocks=%lld", static_cast<long long>(blocks));
    out.back().guess_ms = guess_ms(made, gpu.multiprocessors);
    return Ok{};
  };
  PERI_ASSIGN(const Plan whole, plan({&g, p.constant}, kEach[0], 1, gpu));
  const int64_t results = whole.second.outputs;
  for (const int64_t each : kEachOfCluster)
    if (gpu.clusters && (cuda::kMaxCluster - 1) * each < results)
      PERI_TRY(add(each, cuda::kMaxCluster));  // all have some
  for (const int64_t each : kEach)
    if (each == kEach[0] || each / 16 < results) PERI_TRY(add(each, 1));
  std::stable_sort(out.begin(), out.end(), [](const Offer& a, const Offer& b) { return a.guess_ms < b.guess_ms; });
  if (!at.image) out.resize(std::min(out.size(), kMaxWithoutImage));
  return out;
}

// A chip without clusters makes the middle in each block.
Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config,
                                              const InstantiateContext& context) {
  PERI_ASSIGN(const int64_t each, config_int(config, "each", 8, kMaxEach, 8));
  PERI_ASSIGN(int64_t blocks, config_int(config, "blocks", 1, cuda::kMaxCluster, 1));
  if (each % 8 != 0 || (blocks & (blocks - 1)) != 0) return invalid("bad configuration").but_found(std::string(config));
  const cuda::GpuLimits gpu = cuda::limits_of(*context.target);
  if (!gpu.clusters) blocks = 1;
  PERI_ASSIGN(Plan made, plan(p, each, blocks, gpu));
  return cuda::LaunchInstance::make(std::move(made.launches));
}
}  // namespace

extern const Entry cuda_squeeze_entry;
const Entry cuda_squeeze_entry{{
    .name = "cuda_squeeze",
    .version = 2,
    .provider = "peri",
    .executor = "cuda",
    .takes =
        "two pointwise convolutions of one pixel, one behind the other, on a GPU as one launch, with their epilogue "
        "or their product with an image",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
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
         "const v: bf16[270,10,1,1] = seeded(0.3, 3); m = conv(x, w); t = swish(m); y = conv(t, v); z = sigmoid(y); "
         "o = mul(i, z); output o }",
         "graph { input x: f16[1,480,1,1]; input i: f16[1,480,14,14]; const w: f16[120,480,1,1] = seeded(0.05, 1); "
         "const b: f16[120] = seeded(0.5, 2); const v: f16[480,120,1,1] = seeded(0.1, 3); const c: f16[480] = "
         "seeded(0.5, 4); m = conv(x, w, b); t = relu(m); y = conv(t, v, c); z = hard_sigmoid(y); o = mul(z, i); "
         "output o }",
         "graph { input x: f16[2,203,1,1]; input i: f16[2,203,3,3]; const w: f16[37,203,1,1] = seeded(0.1, 1); "
         "const v: f16[203,37,1,1] = seeded(0.2, 3); m = conv(x, w); t = relu(m); y = conv(t, v); z = sigmoid(y); "
         "o = mul(z, i); output o }",
         "graph { input x: f16[1,1160,1,1]; const w: f16[300,1160,1,1] = seeded(0.05, 1); const b: f16[300] = "
         "seeded(0.5, 2); const v: f16[128,300,1,1] = seeded(0.1, 3); m = conv(x, w, b); t = hard_swish(m); y = "
         "conv(t, v); z = hard_sigmoid(y); output z }"},
}};

}  // namespace peri::kernels
