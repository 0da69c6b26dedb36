// Kernel cuda_conv_mma: convolutions of float16 or bfloat16 on the tensor cores of a GPU since sm_80, with the
// element-wise chain after them: rows are output pixels, columns output channels, sums in float32. Images are NHWC;
// input or result may also be row-major.
#include <algorithm>
#include <optional>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/conv_pairs.hpp"
#include "kernels/cuda/code/conv_tiles.hpp"
#include "kernels/cuda/code/layouts.hpp"
#include "kernels/cuda/code/tiles.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
extern const Entry cuda_conv_mma_entry;

namespace {
using cuda::ConvPairs;
using cuda::ConvShape;
using cuda::Signature;
using cuda::TiledProduct;
constexpr size_t kMaxConfigs = 4, kMaxScattered = 1;  // for each of three batches

Result<std::string> bias_text(const Problem& p, const ir::Node& n, bool wide, Signature* s) {
  const std::string head = "const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {\n";
  std::string one = "v", eight, column = "#define PERI_COLUMN 0\n";
  if (const ir::Value* b = n.in(2)) {
    PERI_ASSIGN(const std::string name, s->value(p, *b));
    const DType type = b->type.dtype;
    one += " + " + cuda::loaded(type, name + "[batch * PERI_OUTPUTS + n]");
    eight = "#pragma unroll\n  for (int e = 0; e < 8; ++e) v[e] = peri_sum(v[e], batch, m, n + e, PERI_PASS);\n";
    if (wide && input_index(*p.graph, b) >= 0)
      eight = "  float bias[8];\n  " + cuda::load_wide(8, type, name + " + batch * PERI_OUTPUTS + n", "bias") +
              ";\n#pragma unroll\n  for (int e = 0; e < 8; ++e) v[e] += bias[e];\n";
    if (wide && input_index(*p.graph, b) >= 0)
      column =
          "#define PERI_COLUMN 1\nPERI_DEVICE float peri_scaled(const float v) { return v; }\nPERI_DEVICE void "
          "peri_column_8(float* c, const PERI_INDEX batch, const PERI_INDEX n, PERI_PARAMETERS) {\n  " +
          cuda::load_wide(8, type, name + " + batch * PERI_OUTPUTS + n", "c") + ";\n}\n";
  }
  return column + "PERI_DEVICE float peri_sum(const float v, " + head + "  return " + one +
         ";\n}\nPERI_DEVICE void peri_sum_8(float* v, " + head + eight + "}\n";
}

constexpr int64_t kPairChannels = 4;  // of a pixel of 8 bytes

struct Read {
  ConvShape shape;
  std::optional<ConvPairs> pairs;
  TiledProduct product;
  Signature signature;
  int weights = -1;  // input
  bool packs = false;
};

// Of a problem whose values state their layouts.
Result<Read> read(const Problem& p, bool in_pairs) {
  Read r;
  PERI_ASSIGN(r.shape, cuda::read_conv(p));
  if (in_pairs) r.pairs = cuda::conv_pairs_of(r.shape, kPairChannels);
  if (in_pairs && !r.pairs) return invalid("an image that is not read in pairs of pixels");
  const ConvShape& c = in_pairs ? r.pairs->shape : r.shape;
  const ir::Node& n = p.anchor();
  const DType type = n.in(0)->type.dtype;
  if ((type != DType::kF16 && type != DType::kBF16) || n.in(1)->type.dtype != type)
    return refused("takes two operands of f16 or of bf16").but_found(std::string(dtype_name(type)));
  r.weights = input_index(*p.graph, n.in(1));
  const int x = input_index(*p.graph, n.in(0));
  if (x < 0 || p.constant[static_cast<size_t>(x)]) return refused("its image is not an argument");
  if (r.weights < 0 || !p.constant[static_cast<size_t>(r.weights)]) return refused("its weights are not constant");
  if (c.outputs < 8 && c.groups > 1) return refused("groups of fewer than 8 output channels");
  const size_t rank = n.in(0)->type.rank();
  const ir::Layout &from = n.in(0)->type.layout, &to = p.graph->outputs[0]->type.layout;
  const bool last_in = from == cuda::channels_last(rank), last_out = to == cuda::channels_last(rank);
  if ((!last_in && !from.row_major()) || (!last_out && !to.row_major())) return refused("another layout");
  TiledProduct& out = r.product = cuda::conv_product(c, type, p);
  out.a_wide = in_pairs || (last_in && c.channels % 8 == 0);
  out.b_wide = true;
  out.c_wide = last_out && c.outputs % 8 == 0;
  r.packs = in_pairs || c.taps() != 1 || c.channels % 8 != 0;
  Signature& s = r.signature;
  PERI_ASSIGN(std::string image, s.value(p, *n.in(0)));
  std::string weights = "";
  if (r.packs) {
    weights = s.packed(0);
  } else {
    PERI_ASSIGN(weights, s.value(p, *n.in(1)));
  }
  PERI_ASSIGN(const std::string bias, bias_text(p, n, out.c_wide, &s));
  PERI_ASSIGN(const std::string finish, cuda::finish_held_text(p, &s));
  std::string pairs;
  if (in_pairs)
    pairs = cuda::conv_pairs_text(r.shape, *r.pairs, "unsigned short", std::string(image), last_in, &s, &out, &image);
  out.functions = pairs + cuda::conv_defines(c, last_in || in_pairs, &s) +
                  cuda::conv_image_text(cuda::conv_element_text(image, out.a_wide)) + cuda::conv_weights_text(weights) +
                  cuda::conv_place_text(last_out) + bias + finish;
  return r;
}

// What the scattered stores of a row-major result cost in addition: a guess (see launch.hpp).
double scattered_ms(const Read& r, bool last_out) {
  const double elements = static_cast<double>(r.product.batch * r.product.m) * static_cast<double>(r.product.n);
  return last_out ? 0 : elements * 16 / 2e9;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_ASSIGN(const ConvShape c, cuda::read_conv(p));
  const size_t rank = p.anchor().in(0)->type.rank();
  const ir::Layout last = cuda::channels_last(rank);
  const cuda::GpuLimits gpu = cuda::limits_of(target);
  std::vector<Offer> out;
  Result<Read> first = refused("no layout");
  // A row-major image is read element by element, as one is whose channels fill no chunks.
  const bool any_image = c.channels % 8 != 0;
  for (const bool last_in : {true, false})
    for (const bool last_out : {true, false}) {
      if (!last_in && !any_image) continue;
      Offer o = cuda::plain_offer(p)[0];
      const ir::Graph g = cuda::with_layouts(p, last_in ? last : ir::Layout{}, last_out ? last : ir::Layout{}, &o);
      for (const bool in_pairs : {true, false}) {
        if (in_pairs && !cuda::conv_pairs_of(c, kPairChannels)) continue;
        Result<Read> r = read({&g, p.constant}, in_pairs);
        if (!r.ok()) {
          if (out.empty()) first = std::move(r);
          continue;
        }
        for (cuda::TileConfig& config : cuda::tile_configs(r->product, gpu,
                                                           !last_out  ? kMaxScattered
                                                           : in_pairs ? 2
                                                                      : kMaxConfigs)) {
          if (in_pairs && !config.text.ends_with("split=1")) continue;
          out.push_back(o);
          out.back().guess_ms =
              config.guess_ms + scattered_ms(*r, last_out) + (in_pairs ? cuda::conv_pairs_ms(c, 2) : 0);
          out.back().config = std::move(config.text) + (in_pairs ? " pairs=1" : "");
        }
      }
    }
  if (out.empty()) return std::move(first).error();
  if (any_image)
    std::stable_sort(out.begin(), out.end(), [](const Offer& a, const Offer& b) { return a.guess_ms < b.guess_ms; });
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config,
                                              const InstantiateContext& context) {
  PERI_ASSIGN(const int64_t tk, setting(cuda_conv_mma_entry.kernel, config, "tk"));
  PERI_ASSIGN(const int64_t stages, setting(cuda_conv_mma_entry.kernel, config, "stages"));
  PERI_ASSIGN(const int64_t in_pairs, config_int(config, "pairs", 0, 1, 0));
  PERI_ASSIGN(Read r, read(p, in_pairs != 0));
  if (r.packs)
    r.product.packed = {{static_cast<size_t>(r.weights), [shape = r.shape, pairs = r.pairs](const Tensor& w) {
                           return pairs ? cuda::conv_paired_weights(w, shape, *pairs)
                                        : cuda::conv_packed_weights(w, shape);
                         }}};
  const int64_t most = std::max<int64_t>(cuda::most_elements(p), static_cast<int64_t>(r.product.first_bytes / 2));
  return cuda::tile_instance(r.product, config, tk, stages, most, cuda::limits_of(*context.target), &r.signature);
}
}  // namespace

const Entry cuda_conv_mma_entry{{
    .name = "cuda_conv_mma",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "convolutions of f16 and bf16 on a GPU's tensor cores with their epilogue, sums in float32",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f16[2,24,7,6]; const w: f16[40,24,1,1] = seeded(0.2, 1); const b: f16[40] = "
                "seeded(0.5, 2); y = conv(x, w, b); output y }",
                "graph { input x: f16[1,16,9,11]; const w: f16[24,16,3,3] = seeded(0.1, 1); y = conv(x, w) "
                "{pads=[1,1,1,1]}; z = relu(y); output z }",
                "graph { input x: bf16[2,3,9,8]; const w: bf16[20,3,3,3] = seeded(0.2, 1); y = conv(x, w) "
                "{pads=[1,1,1,1], strides=[2,2]}; output y }",
                "graph { input x: f16[1,32,9]; const w: f16[16,16,3] = seeded(0.2, 1); y = conv(x, w) {pads=[2,2], "
                "dilations=[2], group=2}; output y }",
                "graph { input x: f16[2,3,10,12]; const w: f16[16,3,7,7] = seeded(0.1, 1); const b: f16[16] = "
                "seeded(0.5, 2); y = conv(x, w, b) {pads=[3,3,3,3], strides=[2,2]}; z = relu(y); output z }",
                "graph { input x: f16[2,24,7,6]; input r: f16[2,40,7,6]; const w: f16[40,24,1,1] = seeded(0.2, 1); y = "
                "conv(x, w); s = add(y, r); z = relu(s); output s; output z }"},
    .tunables = cuda::tile_tunables(),
}};

}  // namespace peri::kernels
