// Kernel cuda_conv_bytes_mma: convolutions of bytes (conv_integer, qlinear_conv) on the tensor cores of a GPU since
// sm_80, with the element-wise chain after them: rows are output pixels, columns output channels, sums in int32, exact.
// Images have their channels last, sixteen of them at a time; the result too, or it is row-major.
#include <algorithm>

#include "kernels/cuda/code/bytes.hpp"
#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/conv_tiles.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/layouts.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
extern const Entry cuda_conv_bytes_mma_entry;

namespace {
using cuda::Bytes;
using cuda::ConvShape;
using cuda::Signature;
constexpr size_t kMaxConfigs = 4;  // for each of three batches
constexpr int64_t kTogether = 16;  // channels of 16 bytes
constexpr int kNoSign = 128;       // unsigned weights with this zero point are signed ones

// What all elements of a constant of the region are; nothing where they differ, or it is none.
std::optional<int64_t> same_everywhere(const ir::Value* v) {
  if (!v) return 0;
  if (!v->constant || v->constant->numel() == 0) return std::nullopt;
  for (int64_t k = 1; k < v->constant->numel(); ++k)
    if (v->constant->i64(k) != v->constant->i64(0)) return std::nullopt;
  return v->constant->i64(0);
}

struct Read {
  Bytes bytes;
  ConvShape shape, pairs;  // in bytes, and in elements of two
  cuda::TiledProduct product;
  Signature signature;
  size_t weights = 0;  // input
  int64_t zero = 0;    // of the image
};

// [output channels, taps and channels in the order of the depth], filled with zeros.
Result<Tensor> packed_weights(const Tensor& w, const ConvShape& c) {
  const int64_t outputs = c.groups * c.outputs, taps = c.taps(), depth = (c.channels * taps + 15) / 16 * 16;
  PERI_ASSIGN(Tensor out, Tensor::zeros(DType::kI8, {outputs, depth}));
  const auto* from = reinterpret_cast<const uint8_t*>(w.bytes().data());
  auto* to = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(out.bytes().data()));
  const uint8_t turned = w.dtype() == DType::kU8 ? kNoSign : 0;
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t channel = 0; channel < c.channels; ++channel)
      for (int64_t tap = 0; tap < taps; ++tap)
        to[o * depth + tap * c.channels + channel] = from[(o * c.channels + channel) * taps + tap] ^ turned;
  return out;
}
// What a zero point of the image adds to each output channel's sums: its weights' sum times it.
Result<Tensor> packed_shifts(const Tensor& w, const ConvShape& c, int64_t zero) {
  const int64_t outputs = c.groups * c.outputs, each = c.channels * c.taps();
  PERI_ASSIGN(Tensor out, Tensor::zeros(DType::kI32, {outputs}));
  for (int64_t o = 0; o < outputs; ++o) {
    int64_t sum = 0;
    for (int64_t k = 0; k < each; ++k) sum += w.i64(o * each + k) - (w.dtype() == DType::kU8 ? kNoSign : 0);
    out.set_i64(o, sum * zero);
  }
  return out;
}

// Pixels beside the image are its zero point, so that a channel's shift is the same everywhere.
std::string image_text(const std::string& x, int64_t zero) {
  std::string out = cuda::conv_image_text(cuda::conv_element_text(x, true));
  if (zero == 0) return out;
  const std::string name = "peri_a_from(", inside = "peri_a_inside(";
  out.replace(out.find(name), name.size(), inside);
  std::string four = std::to_string(static_cast<uint32_t>(static_cast<uint8_t>(zero)) * 0x01010101U) + "u";
  return "PERI_TABLE peri_16 peri_beside[] = {{{" + four + ", " + four + ", " + four + ", " + four + "}}};\n" + out +
         "PERI_DEVICE const unsigned short* peri_a_from(const peri_a_line& line, const peri_a_step& step, bool* there, "
         "PERI_PARAMETERS) {\n  const unsigned short* const at = peri_a_inside(line, step, there, PERI_PASS);\n"
         "  if (*there) return at;\n  *there = true;\n  return (const unsigned short*)peri_beside;\n}\n";
}

// What the tile ends with: sums as bits of floats become numbers; eight of a row are stored at once where nothing
// follows.
std::string end_text(const Problem& p, const std::string& shift, bool wide, const std::string& to) {
  std::string out =
      "#define PERI_COLUMN 0\nPERI_DEVICE int peri_sum(const float v, const PERI_INDEX batch, const PERI_INDEX m, "
      "const "
      "PERI_INDEX n, PERI_PARAMETERS) {\n  const PERI_INDEX column = batch * PERI_OUTPUTS + n;\n  return "
      "peri_rounded((int)peri_word(v)" +
      shift + ", column, PERI_PASS);\n}\n" + cuda::nothing_held_text() +
      "PERI_DEVICE void peri_hold_8(peri_held*, const PERI_INDEX, PERI_PARAMETERS) {}\n";
  if (!wide) return out;
  out +=
      "PERI_DEVICE void peri_sum_8(float* v, const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, "
      "PERI_PARAMETERS) {\n#pragma unroll\n  for (int e = 0; e < 8; ++e) v[e] = peri_bits((unsigned)peri_sum(v[e], "
      "batch, m, n + e, PERI_PASS));\n}\nstruct alignas(8) peri_bytes_8 { unsigned w[2]; };\n"
      "PERI_DEVICE void peri_finish_8(const PERI_INDEX i, float* v, PERI_PARAMETERS) {\n";
  if (p.graph->outputs[0]->type.dtype == DType::kI32)
    return out + "  peri_store_8_f32((float*)" + to + " + i, v);\n}\n";
  return out +
         "  peri_bytes_8 all;\n#pragma unroll\n  for (int k = 0; k < 2; ++k)\n    all.w[k] = (peri_word(v[4 * k]) & "
         "255u) | (peri_word(v[4 * k + 1]) & 255u) << 8 | (peri_word(v[4 * k + 2]) & 255u) << 16 | "
         "peri_word(v[4 * k + 3]) << 24;\n  *(peri_bytes_8*)(" +
         to + " + i) = all;\n}\n";
}

// Of a problem whose values state their layouts.
Result<Read> read(const Problem& p) {
  Read r;
  const ir::Node& n = p.anchor();
  PERI_ASSIGN(r.bytes, cuda::read_bytes(n));
  const Bytes& b = r.bytes;
  if (!b.conv) return refused("not a convolution");
  PERI_ASSIGN(r.shape, cuda::read_conv_of(n, *b.a, *b.b));
  const int x = input_index(*p.graph, b.a), w = input_index(*p.graph, b.b);
  if (x < 0 || p.constant[static_cast<size_t>(x)]) return refused("its image is not an argument");
  if (w < 0 || !p.constant[static_cast<size_t>(w)]) return refused("its weights are not constant");
  r.weights = static_cast<size_t>(w);
  const std::optional<int64_t> a_zero = same_everywhere(b.a_zero), b_zero = same_everywhere(b.b_zero);
  if (!a_zero || !b_zero) return refused("zero points that are no constants of the region, or differ");
  if (*b_zero != (b.b->type.dtype == DType::kU8 ? kNoSign : 0)) return refused("weights that are no signed bytes");
  r.zero = *a_zero;
  const ConvShape& c = r.shape;
  if (c.channels % kTogether != 0) return refused("takes multiples of %d channels", static_cast<int>(kTogether));
  if (c.outputs < 8 && c.groups > 1) return refused("groups of fewer than 8 output channels");
  if (b.scaled && c.channels * c.taps() > cuda::kMaxByteProducts) return refused("sums of more products");
  const size_t rank = b.a->type.rank();
  const ir::Layout& to = p.graph->outputs[0]->type.layout;
  const bool last_out = to == cuda::channels_last(rank);
  if (!(b.a->type.layout == cuda::channels_last(rank)) || (!last_out && !to.row_major()))
    return refused("another layout");
  r.pairs = c;
  r.pairs.channels = c.channels / 2;
  cuda::TiledProduct& out = r.product = cuda::conv_product(r.pairs, b.a->type.dtype, p);
  out.a_wide = out.b_wide = true;
  out.c_wide = last_out && c.outputs % 8 == 0 && p.graph->nodes.size() == 1;
  Signature& s = r.signature;
  PERI_ASSIGN(const std::string image, s.value(p, *b.a));
  std::string shift;
  out.packed = {{r.weights, [c](const Tensor& t) { return packed_weights(t, c); }}};
  const std::string weights = s.packed(0);
  if (r.zero != 0) {
    out.packed.push_back({r.weights, [c, zero = r.zero](const Tensor& t) { return packed_shifts(t, c, zero); }});
    shift = " - ((const int*)" + s.packed(1) + ")[column]";
  }
  PERI_ASSIGN(const std::string rounded, cuda::rounded_text(p, b, c.groups * c.outputs, &s, &out.packed));
  std::string finish, result;
  if (out.c_wide) {
    PERI_ASSIGN(result, s.output(p, 0));
  } else {
    PERI_ASSIGN(finish, cuda::finish_any_text(p, true, &s));
  }
  out.functions = cuda::conv_defines(r.pairs, true, &s) + image_text("((const unsigned short*)" + image + ")", r.zero) +
                  cuda::conv_weights_text(weights) + cuda::conv_place_text(last_out) + rounded + finish +
                  end_text(p, shift, out.c_wide, result);
  return r;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_ASSIGN(const Bytes b, cuda::read_bytes(p.anchor()));
  const ir::Layout last = cuda::channels_last(b.a->type.rank());
  const cuda::GpuLimits gpu = cuda::limits_of(target);
  std::vector<Offer> out;
  for (const bool last_out : {true, false}) {
    Offer o = cuda::plain_offer(p)[0];
    const ir::Graph g = cuda::with_layouts(p, last, last_out ? last : ir::Layout{}, &o);
    PERI_ASSIGN(const Read r, read({&g, p.constant}));
    for (Offer& tile : cuda::tile_offers(o, r.product, gpu, last_out ? kMaxConfigs : 1)) out.push_back(std::move(tile));
  }
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config,
                                              const InstantiateContext& context) {
  PERI_ASSIGN(const int64_t tk, setting(cuda_conv_bytes_mma_entry.kernel, config, "tk"));
  PERI_ASSIGN(const int64_t stages, setting(cuda_conv_bytes_mma_entry.kernel, config, "stages"));
  PERI_ASSIGN(Read r, read(p));
  return cuda::tile_instance(r.product, config, tk, stages, cuda::most_elements(p), cuda::limits_of(*context.target),
                             &r.signature);
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
         // Sums as they are, whose shift shows to the last unit.
         "graph { input x: i8[1,16,7,5]; const w: i8[9,16,2,2] = seeded(40, 1); const z: i8[] = [5]; y = "
         "conv_integer(x, w, z) {pads=[1,1,0,0]}; output y }",
         "graph { input x: i8[1,48,8,6]; const s: f32[] = [0.02]; const z: i8[] = [-128]; const w: i8[20,48,3,3] = "
         "seeded(40, 1); const t: f32[] = [0.004]; const v: i8[] = [0]; const q: f32[] = [0.5]; const o: i8[] = [-3]; "
         "const b: i32[20] = seeded(300, 2); y = qlinear_conv(x, s, z, w, t, v, q, o, b) {pads=[1,0,1,0], "
         "strides=[2,1]}; output y }",
         "graph { input x: u8[1,64,5,5]; const s: f32[] = [0.02]; const z: u8[] = [7]; const w: u8[16,32,1,1] = "
         "seeded(40, 1); const t: f32[] = [0.004]; const v: u8[] = [128]; const q: f32[] = [0.25]; const o: u8[] = "
         "[100]; y = qlinear_conv(x, s, z, w, t, v, q, o) {group=2}; output y }"},
    .tunables = cuda::tile_tunables(),
}};

}  // namespace peri::kernels
