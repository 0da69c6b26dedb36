// Texts of a convolution's operands.
#include "kernels/cuda/code/conv_tiles.hpp"

#include <algorithm>

namespace peri::kernels::cuda {

namespace {
int64_t round_up_8(int64_t v) { return (v + 7) / 8 * 8; }

constexpr std::string_view kImage = R"(
// A line's pixels under the taps: bit t is set where tap t lies inside; of windows of more taps the corner is kept.
enum { kTaps = PERI_KERNEL_D * PERI_KERNEL_H * PERI_KERNEL_W, kBits = kTaps < 32 };
struct peri_a_line { PERI_INDEX at, image; unsigned under; int d, h, w; bool there; };
struct peri_a_step { PERI_INDEX at; int channel, tap, d, h, w; bool there; };
PERI_DEVICE unsigned peri_under(const peri_a_line& line, PERI_PARAMETERS) {
  unsigned row = 0, plane = 0, all = 0;
#pragma unroll
  for (int k = 0; k < PERI_KERNEL_W; ++k) row |= (unsigned)((unsigned)(line.w + k * PERI_DILATION_W) < PERI_IN_W) << k % 32;
#pragma unroll
  for (int k = 0; k < PERI_KERNEL_H; ++k)
    plane |= (unsigned)(line.h + k * PERI_DILATION_H) < PERI_IN_H ? row << k * PERI_KERNEL_W % 32 : 0u;
#pragma unroll
  for (int k = 0; k < PERI_KERNEL_D; ++k)
    all |= (unsigned)(line.d + k * PERI_DILATION_D) < PERI_IN_D ? plane << k * PERI_KERNEL_H * PERI_KERNEL_W % 32 : 0u;
  return line.there ? all : 0u;
}
PERI_DEVICE peri_a_line peri_a_line_of(const PERI_INDEX batch, const PERI_INDEX m, PERI_PARAMETERS) {
  PERI_INDEX pixel = m;
  peri_a_line out;
  out.there = m < PERI_M;
  out.w = (int)(pixel % PERI_OUT_W) * PERI_STRIDE_W - PERI_PAD_W; pixel /= PERI_OUT_W;
  out.h = (int)(pixel % PERI_OUT_H) * PERI_STRIDE_H - PERI_PAD_H; pixel /= PERI_OUT_H;
  out.d = (int)(pixel % PERI_OUT_D) * PERI_STRIDE_D - PERI_PAD_D; pixel /= PERI_OUT_D;
  out.image = pixel;
  out.at = pixel * (PERI_GROUPS * PERI_CHANNELS) * PERI_IN_D * PERI_IN_H * PERI_IN_W + batch * PERI_CHANNELS * PERI_PLANE +
           (((PERI_INDEX)out.d * PERI_IN_H + out.h) * PERI_IN_W + out.w) * PERI_PIXEL;
  out.under = PERI_PADDED && kBits ? peri_under(out, PERI_PASS) : 0u;
  return out;
}
PERI_DEVICE peri_a_step peri_a_step_of(const PERI_INDEX batch, const PERI_INDEX k, PERI_PARAMETERS) {
  int tap = (int)k / PERI_CHANNELS;
  const int channel = (int)k - tap * PERI_CHANNELS;
  peri_a_step out;
  out.there = PERI_WHOLE_K || k < PERI_K;
  out.channel = channel;
  out.tap = out.there ? tap : 31;
  out.w = tap % PERI_KERNEL_W * PERI_DILATION_W; tap /= PERI_KERNEL_W;
  out.h = tap % PERI_KERNEL_H * PERI_DILATION_H; tap /= PERI_KERNEL_H;
  out.d = tap * PERI_DILATION_D;
  out.at = (((PERI_INDEX)out.d * PERI_IN_H + out.h) * PERI_IN_W + out.w) * PERI_PIXEL + channel * PERI_PLANE;
  return out;
}
PERI_DEVICE bool peri_inside(const peri_a_line& line, const peri_a_step& step, PERI_PARAMETERS) {
  if (PERI_PADDED && kBits) return (line.under >> step.tap & 1u) != 0;
  return line.there && step.there &&
         (!PERI_PADDED || ((unsigned)(line.d + step.d) < PERI_IN_D && (unsigned)(line.h + step.h) < PERI_IN_H &&
                           (unsigned)(line.w + step.w) < PERI_IN_W));
}
)";
}  // namespace

TiledProduct conv_product(const ConvShape& c, DType type, const Problem& p) {
  TiledProduct out;
  out.type = type;
  out.batch = c.groups;
  out.m = c.images * c.pixels();
  out.n = c.outputs;
  out.k = c.channels * c.taps();
  out.usual_m = {c.pixels(), 8 * c.pixels(), 64 * c.pixels()};
  const double each = static_cast<double>(c.in[0] * c.in[1] * c.in[2]) / static_cast<double>(c.pixels() * c.taps());
  out.a_bytes = 2 * std::min(1.0, each);
  out.chain_bytes = chain_bytes(p);
  return out;
}

std::string conv_defines(const ConvShape& c, bool last, Signature* s) {
  std::string out;
  const auto define = [&](const std::string& name, const std::string& value) {
    out += "#define PERI_" + name + " " + value + "\n";
  };
  const char* const axis[] = {"D", "H", "W"};
  bool padded = false;
  for (size_t d = 0; d < 3; ++d) {
    const auto fixed = [&](const char* name, int64_t v) {
      define(name + std::string(axis[d]), "(" + std::to_string(v) + ")");
    };
    fixed("KERNEL_", c.kernel[d]);
    fixed("STRIDE_", c.stride[d]);
    fixed("DILATION_", c.dilation[d]);
    fixed("PAD_", c.pad[d]);
    define(std::string("IN_") + axis[d], c.in[d] == 1 ? "1" : s->size(c.in[d]));
    define(std::string("OUT_") + axis[d], c.out[d] == 1 ? "1" : s->size(c.out[d]));
    padded = padded || c.pad[d] != 0 ||
             (c.out[d] - 1) * c.stride[d] + (c.kernel[d] - 1) * c.dilation[d] - c.pad[d] >= c.in[d];
  }
  define("CHANNELS", std::to_string(c.channels));
  define("OUTPUTS", std::to_string(c.outputs));
  define("GROUPS", std::to_string(c.groups));
  define("PADDED", padded ? "1" : "0");
  define("DEPTH", std::to_string(round_up_8(c.channels * c.taps())));
  // Distances of neighbouring pixels and channels.
  define("PIXEL", last ? "(PERI_GROUPS * PERI_CHANNELS)" : "1");
  define("PLANE", last ? "1" : "(PERI_IN_D * PERI_IN_H * PERI_IN_W)");
  return out;
}

std::string conv_image_text(const std::string& element) { return std::string(kImage) + element; }

std::string conv_element_text(const std::string& x, bool wide) {
  return (
      wide
          ? R"(PERI_DEVICE const unsigned short* peri_a_from(const peri_a_line& line, const peri_a_step& step, bool* there, PERI_PARAMETERS) {
  *there = peri_inside(line, step, PERI_PASS);
  return )" + x +
                " + (line.at + step.at);\n}\n"
          : R"(PERI_DEVICE unsigned peri_a(const peri_a_line& line, const peri_a_step& step, PERI_PARAMETERS) {
  return peri_inside(line, step, PERI_PASS) ? (unsigned))" +
                x + "[line.at + step.at] : 0u;\n}\n");
}

std::string conv_weights_text(const std::string& w) {
  return R"(struct peri_b_line { PERI_INDEX at; bool there; };
struct peri_b_step { PERI_INDEX at; bool there; };
PERI_DEVICE peri_b_line peri_b_line_of(const PERI_INDEX batch, const PERI_INDEX n, PERI_PARAMETERS) {
  const peri_b_line out = {(batch * PERI_OUTPUTS + n) * PERI_DEPTH, PERI_WHOLE_N || n < PERI_N};
  return out;
}
PERI_DEVICE peri_b_step peri_b_step_of(const PERI_INDEX batch, const PERI_INDEX k, PERI_PARAMETERS) {
  const peri_b_step out = {k, PERI_WHOLE_K || k < PERI_K};
  return out;
}
PERI_DEVICE const unsigned short* peri_b_from(const peri_b_line& line, const peri_b_step& step, bool* there, PERI_PARAMETERS) {
  *there = line.there && step.there;
  return )" +
         w + " + (line.at + step.at);\n}\n";
}

std::string conv_place_text(bool last) {
  return std::string(
             "PERI_DEVICE PERI_INDEX peri_place(const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, "
             "PERI_PARAMETERS) {\n") +
         (last ? "  return (m * PERI_GROUPS + batch) * PERI_OUTPUTS + n;\n}\n"
               : "  const PERI_INDEX pixels = PERI_OUT_D * PERI_OUT_H * PERI_OUT_W;\n  return ((m / pixels * "
                 "PERI_GROUPS "
                 "+ batch) * PERI_OUTPUTS + n) * pixels + m % pixels;\n}\n");
}

Result<Tensor> conv_packed_weights(const Tensor& w, const ConvShape& c, const std::function<int64_t(int64_t o)>& row) {
  const int64_t depth = round_up_8(c.channels * c.taps()), outputs = c.groups * c.outputs, taps = c.taps();
  PERI_ASSIGN(Tensor out, Tensor::zeros(w.dtype(), {outputs, depth}));
  const auto* from = reinterpret_cast<const uint16_t*>(w.bytes().data());
  auto* to = reinterpret_cast<uint16_t*>(const_cast<std::byte*>(out.bytes().data()));
  for (int64_t o = 0; o < outputs; ++o) {
    const int64_t own = row ? row(o) : o;
    for (int64_t channel = 0; channel < c.channels; ++channel)
      for (int64_t tap = 0; tap < taps; ++tap)
        to[o * depth + tap * c.channels + channel] = from[(own * c.channels + channel) * taps + tap];
  }
  return out;
}

}  // namespace peri::kernels::cuda
