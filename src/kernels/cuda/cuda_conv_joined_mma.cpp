// Kernel cuda_conv_joined_mma: convolutions of float16 or bfloat16 on tensor cores that read the concatenation of two
// images by channels, or an image times a factor for each of its channels, or whose result is stored as depth_to_space
// shuffles it, with the element-wise chain after them: neither that image nor the unshuffled result is ever in memory.
// Images have their channels last.
#include <algorithm>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/conv_tiles.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/layouts.hpp"
#include "kernels/cuda/code/tiles.hpp"
#include "kernels/match/epilogue_match.hpp"
#include "kernels/match/part.hpp"

namespace peri::kernels {
extern const Entry cuda_conv_joined_mma_entry;

namespace {
using cuda::ConvShape;
using cuda::Signature;
using cuda::TiledProduct;
constexpr size_t kMaxConfigs = 4;  // for each of three batches

// What is joined with the convolution: what it reads, or where it stores.
struct Joined {
  const ir::Node* conv = nullptr;
  const ir::Node* concat = nullptr;
  const ir::Node* factors = nullptr;  // a product, of which input `image` is the image
  size_t image = 0;
  const ir::Node* shuffle = nullptr;
  const ir::Node* front() const { return concat ? concat : factors; }
};
Result<Joined> joined_of(const ir::Graph& g) {
  Joined out;
  if (g.nodes.size() < 2) return refused("one operator");
  constexpr const char* kNone = "not a convolution with a concatenation or factors before it or a shuffle behind it";
  if (g.nodes[0]->op == "concat") out.concat = g.nodes[0];
  if (g.nodes[0]->op == "mul") out.factors = g.nodes[0];
  out.conv = g.nodes[out.front() ? 1 : 0];
  if (out.conv->op != "conv") return refused(kNone);
  if (!out.front()) out.shuffle = g.nodes[1];
  if (out.shuffle && out.shuffle->op != "depth_to_space") return refused(kNone);
  // Of an image of one pixel both are as good.
  if (out.factors) out.image = dims_of(*out.factors->in(0)) == dims_of(*out.factors->out()) ? 0 : 1;
  const ir::Value* const middle = out.front() ? out.front()->out() : out.conv->out();
  const ir::Node* const reader = out.front() ? out.conv : out.shuffle;
  if (reader->in(0) != middle || middle->users.size() != 1)
    return refused("the value between the two has other readers");
  return out;
}

// Elements of the concatenation of two images, of which a chunk of eight channels lies in one.
std::string concat_text(const std::string& first, const std::string& second, int64_t channels_of_first) {
  return "#define PERI_FIRST " + std::to_string(channels_of_first) +
         R"(
PERI_DEVICE const unsigned short* peri_a_from(const peri_a_line& line, const peri_a_step& step, bool* there, PERI_PARAMETERS) {
  *there = peri_inside(line, step, PERI_PASS);
  const PERI_INDEX at = line.at + step.at, pixel = at / PERI_CHANNELS, channel = at % PERI_CHANNELS;
  return channel < PERI_FIRST ? )" +
         first + " + pixel * PERI_FIRST + channel\n                              : " + second +
         " + pixel * (PERI_CHANNELS - PERI_FIRST) + (channel - PERI_FIRST);\n}\n";
}

// Elements of an image times a factor for each channel: the image is read ahead, the factors, which many rows share, as
// it is stored in shared memory. A product of two 16-bit numbers is exact in float32 and rounded once, as where it is
// stored in memory (OpDef::reads_stored).
std::string factors_text(const std::string& image, const std::string& factors, const std::string& of_image,
                         DType type) {
  return cuda::conv_element_text(image, true) + "#define PERI_FACTORS (" + factors +
         ")\n#define PERI_FACTORS_OF_IMAGE " + of_image + R"(
PERI_DEVICE peri_16 peri_a_made(const peri_a_line& line, const peri_a_step& step, const peri_16& read, PERI_PARAMETERS) {
  peri_16 out = {{0, 0, 0, 0}};
  if (!peri_inside(line, step, PERI_PASS)) return out;
  float v[8], factor[8];
  )" + cuda::load_wide(8, type, "(const unsigned short*)&read", "v") +
         ";\n  " +
         cuda::load_wide(8, type, "PERI_FACTORS + line.image * PERI_FACTORS_OF_IMAGE + step.channel", "factor") + R"(;
#pragma unroll
  for (int e = 0; e < 8; ++e) v[e] *= factor[e];
  )" + cuda::store_wide(8, type, "(unsigned short*)&out", "v") +
         ";\n  return out;\n}\n";
}

// Columns are the shuffled result's channels within each place of a block: n is place * channels + channel.
std::string shuffle_text(int64_t side, int64_t channels) {
  return format("#define PERI_SIDE %lld\n#define PERI_DEEP %lld\n", static_cast<long long>(side),
                static_cast<long long>(channels)) +
         R"(PERI_DEVICE PERI_INDEX peri_place(const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {
  const PERI_INDEX w = m % PERI_OUT_W, h = m / PERI_OUT_W, place = n / PERI_DEEP;  // rows of all images
  return ((h * PERI_SIDE + place / PERI_SIDE) * (PERI_OUT_W * PERI_SIDE) + w * PERI_SIDE + place % PERI_SIDE) * PERI_DEEP +
         n % PERI_DEEP;
}
)";
}
constexpr std::string_view kPlace = R"(
PERI_DEVICE PERI_INDEX peri_place(const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {
  return m * PERI_OUTPUTS + n;
}
)";
constexpr std::string_view kBias = R"(
#define PERI_COLUMN 0
PERI_DEVICE float peri_sum(const float v, const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {
  return v + peri_bias(n, PERI_PASS);
}
PERI_DEVICE void peri_sum_8(float* v, const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {
#pragma unroll
  for (int e = 0; e < 8; ++e) v[e] = peri_sum(v[e], batch, m, n + e, PERI_PASS);
}
)";

struct Read {
  ConvShape shape;
  TiledProduct product;
  Signature signature;
  int weights = -1;             // input
  int64_t area = 1;             // places of a shuffled block
  bool channels_first = false;  // CRD: the places of a channel are neighbours
  int64_t deep() const { return shape.outputs / area; }
  // The output channel of a column.
  int64_t channel_of(int64_t n) const { return channels_first ? n % deep() * area + n / deep() : n; }
};

Status check_concat(const ir::Graph& g, const std::vector<bool>& constant, const ir::Node& n) {
  const size_t rank = n.in(0)->type.rank();
  PERI_ASSIGN(const size_t axis, cuda::axis_within(n.i("axis"), rank));
  if (axis != 1 || n.inputs.size() != 2) return refused("takes two images by their channels");
  for (const ir::Value* v : n.inputs) {
    const int k = input_index(g, v);
    if (k < 0 || constant[static_cast<size_t>(k)]) return refused("an image that is not an argument");
    if (dims_of(*v)[1] % 8 != 0) return refused("channels that are not a multiple of 8");
  }
  return Ok{};
}

Status check_factors(const ir::Graph& g, const std::vector<bool>& constant, const Joined& j) {
  const ir::Value &image = *j.factors->in(j.image), &factors = *j.factors->in(1 - j.image);
  for (const ir::Value* v : {&image, &factors}) {
    const int k = input_index(g, v);
    if (k < 0 || constant[static_cast<size_t>(k)]) return refused("an image or factors that are not arguments");
    if (v->type.dtype != j.conv->in(0)->type.dtype) return refused("operands of several types");
  }
  const std::vector<int64_t> d = dims_of(image), f = dims_of(factors);
  if (d != dims_of(*j.factors->out()) || f.size() != d.size() || f[1] != d[1] || (f[0] != d[0] && f[0] != 1) ||
      std::any_of(f.begin() + 2, f.end(), [](int64_t size) { return size != 1; }))
    return refused("not a factor for each channel of an image");
  return Ok{};
}

// The operand of the image. Of a problem whose values state their layouts.
Result<std::string> image_of(const Problem& p, const Joined& j, Signature* s) {
  if (j.factors) {
    const ir::Value &x = *j.factors->in(j.image), &f = *j.factors->in(1 - j.image);
    PERI_ASSIGN(const std::string image, s->value(p, x));
    PERI_ASSIGN(const std::string factors, s->value(p, f));
    return factors_text(image, factors, s->size(dims_of(f)[0] == 1 ? 0 : dims_of(f)[1]), x.type.dtype);
  }
  if (!j.concat) {
    PERI_ASSIGN(const std::string image, s->value(p, *j.conv->in(0)));
    return cuda::conv_element_text(image, true);
  }
  PERI_ASSIGN(const std::string first, s->value(p, *j.concat->in(0)));
  PERI_ASSIGN(const std::string second, s->value(p, *j.concat->in(1)));
  return concat_text(first, second, dims_of(*j.concat->in(0))[1]);
}

// The region from `node` on, which reads `middle`, as a problem of its own in the same layouts.
struct End {
  ir::Graph graph;
  std::vector<bool> constant;
};
End end_from(const Problem& p, size_t node, const ir::Value* middle, const ir::Layout& last) {
  const ir::Graph& g = *p.graph;
  End out{part_of(g, node, g.nodes.size(), middle, g.outputs[0]), p.constant};
  for (size_t k = 0; k < g.inputs.size(); ++k) out.graph.inputs[k]->type.layout = g.inputs[k]->type.layout;
  out.graph.inputs.back()->type.layout = last;
  out.graph.outputs[0]->type.layout = g.outputs[0]->type.layout;
  out.constant.push_back(false);
  return out;
}

Status check(const Problem& p, const Joined& j, const Read& r) {
  const ir::Graph& g = *p.graph;
  const DType type = j.conv->in(0)->type.dtype;
  if ((type != DType::kF16 && type != DType::kBF16) || j.conv->in(1)->type.dtype != type)
    return refused("takes two operands of f16 or of bf16").but_found(std::string(dtype_name(type)));
  if (r.weights < 0 || !p.constant[static_cast<size_t>(r.weights)]) return refused("its weights are not constant");
  if (r.shape.groups != 1) return refused("groups");
  if (r.shape.channels % 8 != 0 || r.deep() % 8 != 0) return refused("channels that are not a multiple of 8");
  if (j.concat) PERI_TRY(check_concat(g, p.constant, *j.concat));
  if (j.factors) PERI_TRY(check_factors(g, p.constant, j));
  if (j.shuffle && j.conv->in(0)->type.rank() != 4) return refused("takes images of two dimensions");
  if (const int x = input_index(g, j.conv->in(0)); j.shuffle && (x < 0 || p.constant[static_cast<size_t>(x)]))
    return refused("its image is not an argument");
  return Ok{};
}

Result<Read> read(const Problem& p) {
  const ir::Graph& g = *p.graph;
  if (g.outputs.size() != 1) return refused("more than one result");
  PERI_ASSIGN(const Joined j, joined_of(g));
  const ir::Layout last = cuda::channels_last(g.outputs[0]->type.rank());
  const End conv = end_from(p, j.front() ? 1 : 0, j.conv->in(0), last);
  Read r;
  PERI_ASSIGN(r.shape, cuda::read_conv({&conv.graph, conv.constant}));
  r.weights = input_index(g, j.conv->in(1));
  if (j.shuffle) {
    const int64_t side = j.shuffle->i("blocksize");
    r.area = side * side;
    r.channels_first = j.shuffle->s("mode", "DCR") != "DCR";
  }
  PERI_TRY(check(p, j, r));
  const ConvShape& c = r.shape;
  TiledProduct& out = r.product = cuda::conv_product(c, j.conv->in(0)->type.dtype, p);
  out.a_wide = out.b_wide = out.c_wide = true;
  out.a_made = j.factors != nullptr;
  Signature& s = r.signature;
  PERI_ASSIGN(const std::string image, image_of(p, j, &s));
  const std::string weights = s.packed(0);
  std::string bias = "0.0f";
  if (j.conv->in(2)) {
    PERI_ASSIGN(const std::string name, s.value(p, *j.conv->in(2)));
    const std::string channel = r.channels_first ? "n % PERI_DEEP * (PERI_SIDE * PERI_SIDE) + n / PERI_DEEP" : "n";
    bias = cuda::loaded(j.conv->in(2)->type.dtype, name + "[" + channel + "]");
  }
  const End end = end_from(p, 1, j.front() ? j.front()->out() : j.conv->out(), last);
  PERI_ASSIGN(const std::string finish, cuda::finish_held_text({&end.graph, end.constant}, &s));
  out.functions = cuda::conv_defines(c, true, &s) + cuda::conv_image_text(image) + cuda::conv_weights_text(weights) +
                  (j.shuffle ? shuffle_text(j.shuffle->i("blocksize"), r.deep()) : std::string(kPlace)) +
                  "PERI_DEVICE float peri_bias(const PERI_INDEX n, PERI_PARAMETERS) { return " + bias + "; }\n" +
                  std::string(kBias) + finish;
  return r;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_TRY(joined_of(*p.graph));
  Offer o = cuda::plain_offer(p)[0];
  const ir::Layout last = cuda::channels_last(p.graph->outputs[0]->type.rank());
  const ir::Graph g = cuda::with_layouts(p, last, last, &o);
  PERI_ASSIGN(const Read r, read({&g, p.constant}));
  return cuda::tile_offers(o, r.product, cuda::limits_of(target), kMaxConfigs);
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config,
                                              const InstantiateContext& context) {
  PERI_ASSIGN(const int64_t tk, setting(cuda_conv_joined_mma_entry.kernel, config, "tk"));
  PERI_ASSIGN(const int64_t stages, setting(cuda_conv_joined_mma_entry.kernel, config, "stages"));
  for (const auto* list : {&p.graph->inputs, &p.graph->outputs})
    for (size_t k = 0; k < list->size(); ++k)
      if (const ir::Type& t = (*list)[k]->type;
          (list == &p.graph->outputs || !p.constant[k]) && t.rank() > 2 && !(t.layout == cuda::channels_last(t.rank())))
        return refused("another layout");
  PERI_ASSIGN(Read r, read(p));
  r.product.packed = {{static_cast<size_t>(r.weights), [r](const Tensor& w) {
                         return cuda::conv_packed_weights(w, r.shape, [&r](int64_t n) { return r.channel_of(n); });
                       }}};
  return cuda::tile_instance(r.product, config, tk, stages, cuda::most_elements(p), cuda::limits_of(*context.target),
                             &r.signature);
}
}  // namespace

const Entry cuda_conv_joined_mma_entry{{
    .name = "cuda_conv_joined_mma",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "convolutions of f16 and bf16 on a GPU's tensor cores of two images' channels, of an image times a "
             "factor per channel, or into depth_to_space",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: f16[2,16,7,6]; input z: f16[2,24,7,6]; const w: f16[24,40,3,3] = seeded(0.1, 1); const b: "
         "f16[24] = seeded(0.5, 2); c = concat(x, z) {axis=1}; y = conv(c, w, b) {pads=[1,1,1,1]}; output y }",
         "graph { input x: bf16[1,8,9,10]; input z: bf16[1,8,9,10]; const w: bf16[16,16,3,3] = seeded(0.1, 1); c = "
         "concat(x, z) {axis=1}; y = conv(c, w) {strides=[2,2]}; r = relu(y); output r }",
         "graph { input x: f16[2,16,5,6]; const w: f16[32,16,3,3] = seeded(0.1, 1); const b: f16[32] = seeded(0.5, 2); "
         "c = conv(x, w, b) {pads=[1,1,1,1]}; y = depth_to_space(c) {blocksize=2}; output y }",
         "graph { input x: bf16[1,24,5,7]; const w: bf16[72,24,1,1] = seeded(0.1, 1); const b: bf16[72] = seeded(0.5, "
         "2); input z: bf16[1,8,15,21]; c = conv(x, w, b); d = depth_to_space(c) {blocksize=3, mode=\"CRD\"}; y = "
         "add(d, z); output y }",
         "graph { input x: f16[2,72,7,6]; input g: f16[2,72,1,1]; const w: f16[40,72,1,1] = seeded(0.1, 1); const b: "
         "f16[40] = seeded(0.5, 2); input z: f16[2,40,7,6]; m = mul(g, x); y = conv(m, w, b); r = add(y, z); output r "
         "}",
         "graph { input x: bf16[3,24,6,7]; input g: bf16[1,24,1,1]; const w: bf16[16,24,3,3] = seeded(0.1, 1); m = "
         "mul(x, g); y = conv(m, w) {pads=[1,1,1,1], strides=[2,2]}; r = relu(y); output r }"},
    .tunables = cuda::tile_tunables(),
}};

}  // namespace peri::kernels
