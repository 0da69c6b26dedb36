// Kernel cuda_conv_bytes_mma: convolutions of bytes (conv_integer, qlinear_conv) on the tensor cores of a GPU since
// sm_80, with the element-wise chain after them: rows are output pixels, columns output channels, sums in int32, exact.
// Images have their channels last, a multiple of 8 of them, or up to 8, which are copied as pairs of pixels; the result
// too, or it is row-major.
#include <algorithm>

#include "kernels/cuda/code/bytes_tiles.hpp"
#include "kernels/cuda/code/conv_pairs.hpp"
#include "kernels/cuda/code/conv_tiles.hpp"
#include "kernels/cuda/code/layouts.hpp"

namespace peri::kernels {
extern const Entry cuda_conv_bytes_mma_entry;

namespace {
using cuda::ByteTiles;
using cuda::ConvPairs;
using cuda::ConvShape;
using cuda::Signature;
constexpr size_t kMaxConfigs = 4, kMaxPaired = 2;  // for each of three batches
constexpr int64_t kHalf = 8;                       // channels whose bytes are read at once, or twice as many
constexpr int64_t kPairChannels = 8;               // of a pixel of 8 bytes

struct Read {
  ByteTiles tiles;
  ConvShape shape;  // in bytes
  std::optional<ConvPairs> pairs;
  cuda::TiledProduct product;
  Signature signature;
};

// [output channels, taps and channels in the order of the depth], filled with zeros.
Result<Tensor> packed_weights(const Tensor& w, const ConvShape& c, uint8_t turned) {
  const int64_t outputs = c.groups * c.outputs, taps = c.taps(), depth = (c.channels * taps + 15) / 16 * 16;
  PERI_ASSIGN(Tensor out, Tensor::zeros(DType::kI8, {outputs, depth}));
  const auto* from = reinterpret_cast<const uint8_t*>(w.bytes().data());
  auto* to = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(out.bytes().data()));
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t channel = 0; channel < c.channels; ++channel)
      for (int64_t tap = 0; tap < taps; ++tap)
        to[o * depth + tap * c.channels + channel] = from[(o * c.channels + channel) * taps + tap] ^ turned;
  return out;
}
// Of the weights of each output channel.
Result<Tensor> packed_sums(const Tensor& w, const ConvShape& c, const ByteTiles& t) {
  const int64_t outputs = c.groups * c.outputs, each = c.channels * c.taps();
  PERI_ASSIGN(Tensor out, Tensor::zeros(DType::kI32, {outputs}));
  for (int64_t o = 0; o < outputs; ++o) {
    int64_t sum = 0;
    for (int64_t k = 0; k < each; ++k) sum += cuda::signed_weight(t, w, o * each + k, o);
    out.set_i64(o, sum);
  }
  return out;
}

// Of a problem whose values state their layouts.
Result<Read> read(const Problem& p, bool in_pairs) {
  Read r;
  PERI_ASSIGN(const cuda::Bytes b, cuda::read_bytes(p.anchor()));
  if (!b.conv) return refused("not a convolution");
  PERI_ASSIGN(r.shape, cuda::read_conv_of(p.anchor(), *b.a, *b.b));
  const ConvShape& c = r.shape;
  PERI_ASSIGN(r.tiles, cuda::read_byte_tiles(p, c.groups * c.outputs));
  const ByteTiles& t = r.tiles;
  if (!t.a_zero) return refused("a zero point of the image that is known in the run only");
  if (in_pairs) r.pairs = cuda::conv_pairs_of(c, kPairChannels);
  if (in_pairs && !r.pairs) return invalid("an image that is not read in pairs of pixels");
  if (!in_pairs && c.channels % kHalf != 0) return refused("takes multiples of %d channels", static_cast<int>(kHalf));
  if (c.outputs < 8 && c.groups > 1) return refused("groups of fewer than 8 output channels");
  if (b.scaled && c.channels * c.taps() > cuda::kMaxByteProducts) return refused("sums of more products");
  const size_t rank = b.a->type.rank();
  const ir::Layout last = cuda::channels_last(rank), &from = b.a->type.layout, &to = p.graph->outputs[0]->type.layout;
  const bool last_in = from == last, last_out = to == last;
  if ((!last_in && !(in_pairs && from.row_major())) || (!last_out && !to.row_major())) return refused("another layout");
  ConvShape elements = in_pairs ? r.pairs->shape : c;
  elements.channels /= 2;
  cuda::TiledProduct& out = r.product = cuda::conv_product(elements, b.a->type.dtype, p);
  Signature& s = r.signature;
  out.a_wide = out.b_wide = true;
  out.a_halves = !in_pairs && c.channels % (2 * kHalf) != 0;
  if (*t.a_zero != 0)  // pixels beside the image count as the zero point
    out.a_beside =
        "((unsigned)" + s.whole_number(static_cast<int>(static_cast<uint8_t>(*t.a_zero) * 0x01010101U)) + ")";
  out.c_wide = last_out && c.outputs % 8 == 0;
  PERI_ASSIGN(std::string image, s.value(p, *b.a));
  PERI_ASSIGN(const std::string type, cuda::stored_type(DType::kU8));
  out.packed = {{t.weights, [c, pairs = r.pairs, turned = t.turned](const Tensor& w) {
                   return pairs ? cuda::conv_paired_weights(w, c, *pairs, turned) : packed_weights(w, c, turned);
                 }}};
  const std::string weights = s.packed(0);
  std::string pairs;
  if (in_pairs)
    pairs = cuda::conv_pairs_text(c, *r.pairs, type, std::string(image), last_in, &s, &out, &image);
  else
    image = "((const unsigned short*)" + image + ")";
  PERI_ASSIGN(const std::string end, cuda::byte_end_text(
                                         p, t, c.groups * c.outputs, "batch * PERI_OUTPUTS + n",
                                         [c, t](const Tensor& w) { return packed_sums(w, c, t); }, &s, &out));
  out.functions = pairs + cuda::conv_defines(elements, true, &s) +
                  cuda::conv_image_text(cuda::conv_element_text(image, true)) + cuda::conv_weights_text(weights) +
                  cuda::conv_place_text(last_out) + end;
  return r;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_ASSIGN(const cuda::Bytes b, cuda::read_bytes(p.anchor()));
  const ir::Layout last = cuda::channels_last(b.a->type.rank());
  const cuda::GpuLimits gpu = cuda::limits_of(target);
  std::vector<Offer> out;
  Result<Read> first = refused("no layout");
  for (const bool last_in : {true, false})
    for (const bool last_out : {true, false})
      for (const bool in_pairs : {true, false}) {
        if (!last_in && !in_pairs) continue;
        Offer o = cuda::plain_offer(p)[0];
        const ir::Graph g = cuda::with_layouts(p, last_in ? last : ir::Layout{}, last_out ? last : ir::Layout{}, &o);
        Result<Read> r = read({&g, p.constant}, in_pairs);
        if (!r.ok()) {
          if (!in_pairs) first = std::move(r);
          continue;
        }
        for (Offer& tile : cuda::tile_offers(o, r->product, gpu, in_pairs ? kMaxPaired : last_out ? kMaxConfigs : 1)) {
          if (in_pairs && !tile.config.ends_with("split=1")) continue;
          if (in_pairs) {
            tile.guess_ms += cuda::conv_pairs_ms(r->shape, 1);
            tile.config += " pairs=1";
          }
          out.push_back(std::move(tile));
        }
      }
  if (out.empty()) return std::move(first).error();
  std::stable_sort(out.begin(), out.end(), [](const Offer& a, const Offer& b) { return a.guess_ms < b.guess_ms; });
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config,
                                              const InstantiateContext& context) {
  PERI_ASSIGN(const int64_t tk, setting(cuda_conv_bytes_mma_entry.kernel, config, "tk"));
  PERI_ASSIGN(const int64_t stages, setting(cuda_conv_bytes_mma_entry.kernel, config, "stages"));
  PERI_ASSIGN(const int64_t in_pairs, config_int(config, "pairs", 0, 1, 0));
  PERI_ASSIGN(Read r, read(p, in_pairs != 0));
  const int64_t most = std::max<int64_t>(cuda::most_elements(p), static_cast<int64_t>(r.product.first_bytes));
  return cuda::tile_instance(r.product, config, tk, stages, most, cuda::limits_of(*context.target), &r.signature);
}
}  // namespace

const Entry cuda_conv_bytes_mma_entry{{
    .name = "cuda_conv_bytes_mma",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "convolutions of bytes on a GPU's tensor cores with their epilogue, exact",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: u8[2,32,9,7]; const w: i8[24,32,3,3] = seeded(40, 1); y = conv_integer(x, w) "
         "{pads=[1,1,1,1]}; output y }",
         // Sums as they are, whose shift shows to the last unit: also of halves, and of pairs.
         "graph { input x: i8[1,16,7,5]; const w: i8[9,16,2,2] = seeded(40, 1); const z: i8[] = [5]; y = "
         "conv_integer(x, w, z) {pads=[1,1,0,0]}; output y }",
         "graph { input x: i8[1,24,6,7]; const w: i8[16,24,3,3] = seeded(40, 1); const z: i8[] = [-7]; y = "
         "conv_integer(x, w, z) {pads=[1,1,1,1]}; output y }",
         "graph { input x: i8[1,24,6,7]; const w: u8[16,24,3,3] = seeded(40, 1); const z: i8[] = [-7]; const v: u8[] = "
         "[120]; y = conv_integer(x, w, z, v) {pads=[1,1,1,1]}; output y }",
         "graph { input x: u8[1,5,6,8]; const w: i8[16,5,3,3] = seeded(40, 1); const z: u8[] = [126]; y = "
         "conv_integer(x, w, z) {pads=[1,1,1,1], strides=[1,2]}; output y }",
         "graph { input x: i8[1,48,8,6]; const s: f32[] = [0.02]; const z: i8[] = [-128]; const w: i8[20,48,3,3] = "
         "seeded(40, 1); const t: f32[] = [0.004]; const v: i8[] = [0]; const q: f32[] = [0.5]; const o: i8[] = [-3]; "
         "const b: i32[20] = seeded(300, 2); y = qlinear_conv(x, s, z, w, t, v, q, o, b) {pads=[1,0,1,0], "
         "strides=[2,1]}; output y }",
         "graph { input x: u8[1,64,5,5]; const s: f32[] = [0.02]; const z: u8[] = [7]; const w: u8[16,32,1,1] = "
         "seeded(40, 1); const t: f32[] = [0.004]; const v: u8[] = [128]; const q: f32[] = [0.25]; const o: u8[] = "
         "[100]; y = qlinear_conv(x, s, z, w, t, v, q, o) {group=2}; output y }",
         // A bias in floats.
         "graph { input x: u8[1,16,5,5]; const s: f32[] = [0.02]; const z: u8[] = [7]; const w: i8[16,16,1,1] = "
         "seeded(40, 1); const t: f32[16] = seeded(0.004, 4); const v: i8[] = [0]; const q: f32[] = [0.25]; const o: "
         "u8[] = "
         "[100]; const b: f32[16] = seeded(3, 2); y = qlinear_conv(x, s, z, w, t, v, q, o, b); output y }",
         // Halves of sixteen channels, beside the image too, and what is added eight at a time.
         "graph { input x: i8[1,24,6,7]; input r: u8[1,16,6,7]; const s: f32[] = [0.02]; const z: i8[] = [-3]; const "
         "w: i8[16,24,3,3] = seeded(40, 1); const t: f32[16] = seeded(0.004, 4); const v: i8[] = [0]; const q: f32[] = "
         "[0.5]; const o: u8[] = [130]; const b: i32[16] = seeded(300, 2); y = qlinear_conv(x, s, z, w, t, v, q, o, b) "
         "{pads=[1,1,1,1]}; f = from_bytes(y, q, o); g = from_bytes(r, s, o); a = add(f, g); u = to_bytes(a, q, o); "
         "output u }",
         "graph { input x: u8[2,3,10,12]; const s: f32[] = [0.02]; const z: u8[] = [126]; const w: i8[16,3,7,7] = "
         "seeded(40, 1); const t: f32[] = [0.004]; const v: i8[] = [0]; const q: f32[] = [0.5]; const o: u8[] = [3]; "
         "const b: i32[16] = seeded(300, 2); y = qlinear_conv(x, s, z, w, t, v, q, o, b) {pads=[3,3,3,3], "
         "strides=[2,2]}; output y }"},
    .tunables = cuda::tile_tunables(),
}};

}  // namespace peri::kernels
