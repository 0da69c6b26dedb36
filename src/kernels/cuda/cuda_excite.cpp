// Kernel cuda_excite: a squeeze-and-excite block as one launch: the mean of an image's pixels, two pointwise
// convolutions of it with their epilogues, and the product with the image. A cluster of blocks processes an image, each
// block a part of the channels, reading the others' intermediate results from their shared memory. Weights, and the
// image where it fits, are loaded there first, all at once.
#include <algorithm>

#include "kernels/cuda/code/cluster.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/entry.hpp"
#include "kernels/cuda/code/excite_text.hpp"
#include "kernels/cuda/code/layouts.hpp"
#include "kernels/cuda/code/rows.hpp"
#include "kernels/cuda/code/squeeze_shape.hpp"
#include "kernels/cuda/code/warp.hpp"
#include "kernels/match/epilogue_match.hpp"
#include "kernels/match/part.hpp"

namespace peri::kernels {
extern const Entry cuda_excite_entry;

namespace {
using cuda::ConvShape;
using cuda::KernelLaunch;
using cuda::Signature;

constexpr int64_t kMaxChannels = 4096, kMaxMiddle = 1024;  // floats of shared memory

int64_t round_up_8(int64_t v) { return (v + 7) / 8 * 8; }
int64_t share_of_8(int64_t v, int64_t blocks) { return round_up_8((v + blocks - 1) / blocks); }

// A problem as its parts: the mean, the two products, the image.
struct Read {
  ir::Graph head, tail;
  std::vector<bool> constant;
  const ir::Value* image = nullptr;
  DType type = DType::kF16;
  ConvShape first, second;
  int64_t pixels = 0;
  Problem one() const { return {&head, constant}; }
  Problem two() const { return {&tail, constant}; }
};

Result<Read> read(const Problem& p) {
  const ir::Graph& g = *p.graph;
  if (g.nodes.size() < 4 || g.nodes[0]->op != "global_average_pool") return refused("no mean of pixels in front");
  const ir::Value* const mean = g.nodes[0]->out();
  PERI_ASSIGN(const cuda::SqueezeParts at, cuda::parted_squeeze(g, 1));
  if (!at.image) return refused("no product with an image behind it");
  if (g.nodes[1]->in(0) != mean || mean->users.size() != 1 || g.nodes[0]->in(0) != at.image)
    return refused("the mean is not of that image, or not for the first convolution alone");
  Read out;
  out.head = part_of(g, 1, at.second, mean, at.middle);
  out.tail = part_of(g, at.second, at.end, at.middle, at.result);
  out.constant = p.constant;
  out.constant.push_back(false);
  out.image = at.image;
  out.type = at.image->type.dtype;
  PERI_ASSIGN(out.first, cuda::read_one_pixel(out.one()));
  PERI_ASSIGN(out.second, cuda::read_one_pixel(out.two()));
  if (out.one().anchor().in(0) != out.head.inputs.back() || out.two().anchor().in(0) != out.tail.inputs.back())
    return refused("a convolution of something else");
  for (const Problem& part : {out.one(), out.two()})
    for (const ir::Value* v : part.anchor().inputs)
      if (v && v->type.dtype != out.type) return refused("operands of several types");
  const ir::Value& result = *g.outputs[0];
  if (result.type.dtype != out.type) return refused("an image of another type");
  if (out.first.channels % 8 != 0) return refused("channels that are not a multiple of 8");
  if (out.first.channels > kMaxChannels || out.first.outputs > kMaxMiddle)
    return refused("more channels than shared memory holds");
  if (out.second.outputs != out.first.channels) return refused("another number of factors than of channels");
  const ir::Layout last = cuda::channels_last(result.type.rank());
  if (!(result.type.layout == last) || !(at.image->type.layout == last)) return refused("another layout");
  out.pixels = cuda::elements_of(std::span<const int64_t>(dims_of(result)).subspan(2));
  if (out.pixels == 0) return refused("an image of no pixels");
  return out;
}

// What a block has in shared memory; as the text lays it out.
struct Room {
  int64_t each = 0, rows = 0;          // channels of a block, rows of the first product
  int64_t bytes = 0;                   // of all
  bool brought = false, kept = false;  // the weights, and the image
};
Room room_of(const Read& r, int64_t blocks, int64_t limit) {
  Room out{share_of_8(r.first.channels, blocks), share_of_8(r.first.outputs, blocks)};
  const int64_t element = dtype_bits(r.type) / 8;
  out.bytes = 4 * (out.each * (2 + blocks) + out.rows * (1 + blocks) + cuda::kExciteThreads * 9);
  const int64_t weights = element * (out.rows * r.first.channels + out.each * r.first.outputs),
                image = element * out.each * r.pixels;
  out.brought = out.bytes + weights <= limit;
  if (out.brought) out.bytes += weights;
  out.kept = out.bytes + image <= limit;
  if (out.kept) out.bytes += image;
  return out;
}

Result<std::vector<KernelLaunch>> plan(const Problem& p, const Read& r, int64_t blocks, const Room& room) {
  Signature s;
  std::string body(cuda::warp_text());
  if (blocks > 1) body += cuda::cluster_text();
  const auto define = [&](const char* name, const std::string& value) {
    body += std::string("#define PERI_") + name + " " + value + "\n";
  };
  const Problem one = r.one(), two = r.two();
  PERI_ASSIGN(const std::string image, s.value(p, *r.image));
  PERI_ASSIGN(const std::string w, s.value(one, *one.anchor().in(1)));
  PERI_ASSIGN(const std::string v, s.value(two, *two.anchor().in(1)));
  PERI_ASSIGN(const std::string to, s.output(p, 0));
  PERI_ASSIGN(const std::string stored, cuda::stored_type(r.type));
  PERI_ASSIGN(const std::string between, cuda::behind_product(r.head));
  PERI_ASSIGN(const std::string behind, cuda::behind_product(r.tail));
  define("IMAGE", image);
  define("W", w);
  define("V", v);
  define("OUT", to);
  define("STORED", stored);
  define("LOAD(E)", cuda::loaded(r.type, "E"));
  define("LOAD_8(FROM, TO)", cuda::load_wide(8, r.type, "FROM", "TO"));
  define("STORE(E)", cuda::stored(r.type, "(E)"));
  define("STORE_8(TO, FROM)", cuda::store_wide(8, r.type, "TO", "FROM"));
  define("BETWEEN", between);
  define("BEHIND", behind);
  define("ALIGNED", "(" + s.aligned() + ")");
  define("BLOCKS", std::to_string(blocks));
  define("CHANNELS", s.size(r.first.channels));
  define("MIDDLE", s.size(r.first.outputs));
  define("PIXELS", s.size(r.pixels));
  define("EACH", s.size(room.each));
  define("ROWS", s.size(room.rows));
  define("BROUGHT", "(" + s.size(room.brought) + " != 0)");
  define("KEPT", "(" + s.size(room.kept) + " != 0)");
  PERI_ASSIGN(const std::string first_bias, cuda::bias_of(one, one.anchor(), "PERI_B", &s));
  PERI_ASSIGN(const std::string second_bias, cuda::bias_of(two, two.anchor(), "PERI_C", &s));
  body += first_bias + second_bias + cuda::block_text(32) + std::string(cuda::excite_text());
  const int64_t all = r.first.images * blocks;
  if (all > cuda::kMaxBlocks) return refused("more parts than a grid has blocks");
  std::vector<KernelLaunch> out;
  if (all == 0) return out;
  out.push_back(
      s.launch("peri_excite", s.text(cuda::most_elements(p), body), all, static_cast<int>(cuda::kExciteThreads)));
  out.back().shared_bytes = room.bytes;
  out.back().cluster = static_cast<int>(blocks);
  return out;
}

// A block loads its weights and its channels of the image at the rate of one multiprocessor from L2, its image again
// where it is not kept, and stores it; clusters synchronise three times. Round constants, not fitted: see launch.hpp.
double guess_ms(const Read& r, int64_t blocks, const Room& room, int multiprocessors) {
  constexpr double kLaunchNs = 1200, kPhasesNs = 2800, kBytesPerNs = 60;
  const auto size = [](int64_t v) { return static_cast<double>(v); };
  const double element = size(dtype_bits(r.type)) / 8;
  const double bytes = element * (size(room.rows) * size(r.first.channels) + size(room.each) * size(r.first.outputs) +
                                  size(room.each) * size(r.pixels) * (room.kept ? 2 : 3));
  const auto waves = size((r.first.images * blocks + multiprocessors - 1) / multiprocessors);
  return (kLaunchNs + std::max(waves, 1.0) * (kPhasesNs + bytes / kBytesPerNs)) / 1e6;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  if (p.graph->outputs.size() != 1) return refused("several results");
  const size_t rank = p.graph->outputs[0]->type.rank();
  if (rank < 3 || p.anchor().op != "global_average_pool") return refused("no mean of pixels in front");
  const int of_image = input_index(*p.graph, p.anchor().in(0));
  if (of_image < 0) return refused("an image that is not an argument");
  Offer o = cuda::plain_offer(p)[0];
  ir::Graph g = p.graph->clone();
  const auto image = static_cast<size_t>(of_image);
  o.inputs[image] = o.outputs[0] = cuda::channels_last(rank);
  g.inputs[image]->type.layout = g.outputs[0]->type.layout = cuda::channels_last(rank);
  const Problem laid{&g, p.constant};
  PERI_ASSIGN(const Read r, read(laid));
  const cuda::GpuLimits gpu = cuda::limits_of(target);
  std::vector<Offer> out;
  // The largest cluster in which each block has a share, and a block by itself.
  int64_t most = gpu.clusters ? cuda::kMaxCluster : 1;
  while (most > 1 && (most - 1) * share_of_8(r.first.channels, most) >= r.first.channels) most /= 2;
  for (const int64_t blocks : {most, int64_t{1}}) {
    if (blocks == 1 && !out.empty() && most == 1) break;
    const Room room = room_of(r, blocks, gpu.shared_bytes);
    PERI_TRY(plan(laid, r, blocks, room));
    out.push_back(o);
    out.back().config = format("blocks=%lld", static_cast<long long>(blocks));
    out.back().guess_ms = guess_ms(r, blocks, room, gpu.multiprocessors);
  }
  std::stable_sort(out.begin(), out.end(), [](const Offer& a, const Offer& b) { return a.guess_ms < b.guess_ms; });
  out.resize(1);  // half a second of NVRTC each, and chosen in none of tests/whole/locks
  return out;
}

// A chip without clusters gives an image to one block.
Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config,
                                              const InstantiateContext& context) {
  PERI_ASSIGN(int64_t blocks, config_int(config, "blocks", 1, cuda::kMaxCluster, 1));
  if ((blocks & (blocks - 1)) != 0) return invalid("bad configuration").but_found(std::string(config));
  PERI_ASSIGN(const int64_t room, setting(cuda_excite_entry.kernel, config, "room"));
  const cuda::GpuLimits gpu = cuda::limits_of(*context.target);
  if (!gpu.clusters) blocks = 1;
  PERI_ASSIGN(const Read r, read(p));
  const int64_t limit = room == 0 ? gpu.shared_bytes : std::min(room << 10, gpu.shared_bytes);
  PERI_ASSIGN(std::vector<KernelLaunch> launches, plan(p, r, blocks, room_of(r, blocks, limit)));
  return cuda::LaunchInstance::make(std::move(launches));
}
}  // namespace

const Entry cuda_excite_entry{{
    .name = "cuda_excite",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "a squeeze-and-excite block on a GPU as one launch: mean over pixels, two pointwise convolutions, product",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: f16[2,72,9,7]; const w: f16[24,72,1,1] = seeded(0.2, 1); const b: f16[24] = seeded(0.5, 2); "
         "const v: f16[72,24,1,1] = seeded(0.3, 3); const c: f16[72] = seeded(0.5, 4); p = global_average_pool(x); m = "
         "conv(p, w, b); t = relu(m); y = conv(t, v, c); z = hard_sigmoid(y); o = mul(z, x); output o }",
         "graph { input x: bf16[1,264,5,3]; const w: bf16[10,264,1,1] = seeded(0.1, 1); const b: bf16[10] = "
         "seeded(0.5, "
         "2); const v: bf16[264,10,1,1] = seeded(0.3, 3); p = global_average_pool(x); m = conv(p, w, b); s = "
         "sigmoid(m); t = mul(m, s); y = conv(t, v); z = sigmoid(y); o = mul(x, z); output o }",
         "graph { input x: f32[1,960,3,3]; const w: f32[240,960,1,1] = seeded(0.05, 1); const v: f32[960,240,1,1] = "
         "seeded(0.1, 3); const c: f32[960] = seeded(0.5, 4); p = global_average_pool(x); m = conv(p, w); t = relu(m); "
         "y = conv(t, v, c); z = hard_sigmoid(y); o = mul(x, z); output o }",
         "graph { input x: f16[1,8,31,33]; const w: f16[4,8,1,1] = seeded(0.3, 1); const v: f16[8,4,1,1] = seeded(0.3, "
         "3); p = global_average_pool(x); m = conv(p, w); t = relu(m); y = conv(t, v); z = sigmoid(y); o = mul(x, z); "
         "output o }",
         "graph { input x: f16[1,1160,4]; const w: f16[16,1160,1] = seeded(0.1, 1); const v: f16[1160,16,1] = "
         "seeded(0.2, 3); p = global_average_pool(x); m = conv(p, w); t = swish(m); y = conv(t, v); z = sigmoid(y); o "
         "= "
         "mul(x, z); output o }"},
    .tunables = {{"room", "KiB of shared memory up to which a block keeps weights and image there", {64, 16, 112}}},
}};

}  // namespace peri::kernels
