// Kernel conv_open_f32: two-dimensional float32 convolution whose weights or bias are inputs of the run, or whose image
// is a weight: nothing is packed. A task computes one plane of the result, row by row, adding a shifted row of the
// image for each weight.
#include <algorithm>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/simd/arrays.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/conv_match.hpp"

namespace peri::kernels {
namespace {

constexpr size_t kWeights = 1, kBias = 2;  // inputs of the node

using AddScaled = void (*)(float a, const float* x, float* y, int64_t n);

AddScaled add_scaled_of(cpu::Isa isa) {
  return isa == cpu::Isa::kAvx512 ? simd::avx512::add_scaled : simd::avx2::add_scaled;
}

bool constant(const Problem& p, const ir::Value* v) {
  const int at = input_index(*p.graph, v);
  return at < 0 || p.constant[static_cast<size_t>(at)];
}

Result<ConvShape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "conv") return refused("not a convolution");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only");
  const bool bias = !n.in(kBias) || constant(p, n.in(kBias));
  if (constant(p, n.in(kWeights)) && bias && !constant(p, n.in(0)))
    return refused("its weights are constant: kernels that pack them take it");
  PERI_ASSIGN(ConvShape s, conv_sizes(n, *n.in(0), *n.in(kWeights)));
  // One pixel by one: the plane is one row.
  if (s.kh * s.kw == 1 && s.sh * s.sw == 1 && s.top + s.bottom + s.left + s.right == 0) {
    s.iw *= s.ih;
    s.ih = 1;
  }
  return s;
}

// What a weight takes of zeros beside the image: nothing, or NaN where it is no finite number.
void add_padding(float weight, float* y, int64_t begin, int64_t end) {
  const float nothing = weight * 0;
  if (nothing != 0)
    for (int64_t k = begin; k < end; ++k) y[k] += nothing;
}

// Adds what the kernel's row `w` takes of the image's row `x` to the row `y` of the result.
void add_row(const ConvShape& s, AddScaled add_scaled, const float* x, const float* w, float* y) {
  for (int64_t kx = 0; kx < s.kw; ++kx) {
    const int64_t left = kx * s.dw - s.left;  // of the image, at column 0 of the result
    const int64_t begin = left < 0 ? std::min((-left + s.sw - 1) / s.sw, s.ow()) : 0;
    const int64_t end = std::clamp((s.iw - left + s.sw - 1) / s.sw, begin, s.ow());
    add_padding(w[kx], y, 0, begin);
    add_padding(w[kx], y, end, s.ow());
    if (s.sw == 1)
      add_scaled(w[kx], x + left + begin, y + begin, end - begin);
    else
      for (int64_t k = begin; k < end; ++k) y[k] += w[kx] * x[left + k * s.sw];
  }
}

void make_plane(const ConvShape& s, AddScaled add_scaled, const float* x, const float* w, float bias, float* y) {
  const int64_t channels = s.ic / s.groups;
  for (int64_t oy = 0; oy < s.oh(); ++oy, y += s.ow()) {
    std::fill_n(y, s.ow(), bias);
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t ky = 0; ky < s.kh; ++ky) {
        const int64_t at = oy * s.sh + ky * s.dh - s.top;
        const float* const own = w + (c * s.kh + ky) * s.kw;
        if (at >= 0 && at < s.ih)
          add_row(s, add_scaled, x + (c * s.ih + at) * s.iw, own, y);
        else
          for (int64_t kx = 0; kx < s.kw; ++kx) add_padding(own[kx], y, 0, s.ow());
      }
  }
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(cpu::best_isa(target));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const ConvShape s, read(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  const AddScaled add = add_scaled_of(isa);
  const ir::Node& n = p.anchor();
  const Source image = Source::of(p, n.in(0), c.constants), weights = Source::of(p, n.in(kWeights), c.constants),
               bias = Source::of(p, n.in(kBias), c.constants);
  return TaskInstance::make(s.n * s.oc, 0, [s, add, image, weights, bias](int64_t task, const Args& args) {
    const int64_t batch = task / s.oc, out = task % s.oc, channels = s.ic / s.groups;
    const float* x = image.f32(args) + (batch * s.ic + out / (s.oc / s.groups) * channels) * s.ih * s.iw;
    make_plane(s, add, x, weights.f32(args) + out * channels * s.kh * s.kw, bias.known() ? bias.f32(args)[out] : 0,
               static_cast<float*>(args.out[0]) + task * s.oh() * s.ow());
  });
}
}  // namespace

extern const Entry conv_open_f32_entry;
const Entry conv_open_f32_entry{{
    .name = "conv_open_f32",
    .version = 2,
    .provider = "peri",
    .takes = "float32 convolution in two dimensions whose weights or bias are not constants",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: f32[2,4,9,37]; input w: f32[6,4,3,3]; y = conv(x, w) {pads=[1,1,1,1]}; output y }",
         "graph { input x: f32[1,6,11,19]; input w: f32[9,2,3,2]; input b: f32[9]; y = conv(x, w, b) {group=3, "
         "strides=[2,3], dilations=[1,2], pads=[0,1,2,3]}; output y }",
         "graph { input x: f32[2,16,7,7]; input w: f32[5,16,1,1]; input b: f32[5]; y = conv(x, w, b); output y }",
         "graph { input x: f32[1,3,9,8]; input w: f32[2,3,4,4]; y = conv(x, w) {auto_pad=\"SAME_LOWER\", "
         "strides=[2,1]}; output y }",
         "graph { input x: f32[1,8,5,40]; input w: f32[8,1,5,7]; y = conv(x, w) {group=8, pads=[2,3,2,3]}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
