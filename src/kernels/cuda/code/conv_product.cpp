// Three dimensions for all; the missing ones are of size 1.
#include "kernels/cuda/code/conv_product.hpp"

#include <algorithm>

namespace peri::kernels::cuda {

namespace {
// Sizes as parameters, what attributes and weights fix as numbers of the text.
std::string defines(const ConvShape& c, Signature* s) {
  std::string out;
  const auto define = [&](const char* name, const std::string& value) {
    out += std::string("#define PERI_") + name + " " + value + "\n";
  };
  const char* const axis[] = {"D", "H", "W"};
  for (size_t d = 0; d < 3; ++d) {
    const auto fixed = [&](const char* name, int64_t v) {
      define((std::string(name) + axis[d]).c_str(), "(" + std::to_string(v) + ")");
    };
    fixed("KERNEL_", c.kernel[d]);
    fixed("STRIDE_", c.stride[d]);
    fixed("DILATION_", c.dilation[d]);
    fixed("PAD_", c.pad[d]);
    define((std::string("IN_") + axis[d]).c_str(), c.in[d] == 1 ? "1" : s->size(c.in[d]));
    define((std::string("OUT_") + axis[d]).c_str(), c.out[d] == 1 ? "1" : s->size(c.out[d]));
  }
  define("GROUPS", std::to_string(c.groups));
  define("CHANNELS", std::to_string(c.channels));
  define("OUTPUTS", std::to_string(c.outputs));
  return out;
}

// The first input pixel of an output pixel, and the element under a tap of it.
std::string reading(const std::string& x_element) {
  return R"(struct peri_column { PERI_INDEX base; int d, h, w; bool inside; };
PERI_DEVICE peri_column peri_window(const PERI_INDEX image, const PERI_INDEX group, PERI_INDEX pixel, PERI_PARAMETERS) {
  peri_column out;
  out.w = (int)(pixel % PERI_OUT_W) * PERI_STRIDE_W - PERI_PAD_W; pixel /= PERI_OUT_W;
  out.h = (int)(pixel % PERI_OUT_H) * PERI_STRIDE_H - PERI_PAD_H; pixel /= PERI_OUT_H;
  out.d = (int)pixel * PERI_STRIDE_D - PERI_PAD_D;
  out.base = (image * PERI_GROUPS + group) * PERI_CHANNELS * PERI_IN_D * PERI_IN_H * PERI_IN_W;
  out.inside = true;
  return out;
}
PERI_DEVICE PERI_NUMBER peri_tap(const peri_column& column, const PERI_INDEX channel, const int kd, const int kh, const int kw,
                           PERI_PARAMETERS) {
  const int d = column.d + kd * PERI_DILATION_D, h = column.h + kh * PERI_DILATION_H, w = column.w + kw * PERI_DILATION_W;
  if (d < 0 || d >= PERI_IN_D || h < 0 || h >= PERI_IN_H || w < 0 || w >= PERI_IN_W) return 0;
  const PERI_INDEX at = column.base + ((channel * PERI_IN_D + d) * PERI_IN_H + h) * PERI_IN_W + w;
  return )" +
         x_element + ";\n}\n";
}

constexpr std::string_view kDirect = R"(
PERI_KERNEL __launch_bounds__(256) peri_conv_direct(PERI_PARAMETERS) {
  const PERI_INDEX step = (PERI_INDEX)gridDim.x * 256, pixels = PERI_OUT_D * PERI_OUT_H * PERI_OUT_W;
  for (PERI_INDEX i = (PERI_INDEX)blockIdx.x * 256 + threadIdx.x; i < PERI_COUNT; i += step) {
    PERI_INDEX rest = i / pixels;
    const PERI_INDEX output = rest % (PERI_GROUPS * PERI_OUTPUTS); rest /= PERI_GROUPS * PERI_OUTPUTS;
    const peri_column column = peri_window(rest, output / PERI_OUTPUTS, i % pixels, PERI_PASS);
    PERI_INDEX at = output * (PERI_CHANNELS * PERI_KERNEL_D * PERI_KERNEL_H * PERI_KERNEL_W);
    peri_sum_type sum = 0;
    for (int channel = 0; channel < PERI_CHANNELS; ++channel)
      for (int kd = 0; kd < PERI_KERNEL_D; ++kd)
        for (int kh = 0; kh < PERI_KERNEL_H; ++kh)
          for (int kw = 0; kw < PERI_KERNEL_W; ++kw)
            sum = peri_fma(peri_weight(at++, PERI_PASS), peri_tap(column, channel, kd, kh, kw, PERI_PASS), sum);
    peri_finish(i, peri_sum(sum, output / PERI_OUTPUTS, output % PERI_OUTPUTS, 0, PERI_PASS), PERI_PASS);
  }
}
)";

}  // namespace

std::string conv_text(const ConvShape& conv, const std::string& number, const std::string& x, const std::string& w,
                      Signature* signature) {
  return "#define PERI_NUMBER " + number + "\n" + defines(conv, signature) + reading(x) +
         "PERI_DEVICE PERI_NUMBER peri_weight(const PERI_INDEX at, PERI_PARAMETERS) { return " + w + "; }\n";
}

std::string_view conv_product_text() {
  return R"(
PERI_DEVICE PERI_INDEX peri_a_base(const PERI_INDEX batch, PERI_PARAMETERS) { return batch * PERI_M * PERI_K; }
PERI_DEVICE PERI_NUMBER peri_a(const PERI_INDEX base, const PERI_INDEX m, const PERI_INDEX k, PERI_PARAMETERS) {
  return peri_weight(base + m * PERI_K + k, PERI_PASS);
}
PERI_DEVICE peri_column peri_column_of(const PERI_INDEX batch, const PERI_INDEX n, PERI_PARAMETERS) {
  const PERI_INDEX pixels = PERI_OUT_D * PERI_OUT_H * PERI_OUT_W;
  peri_column out = peri_window(n / pixels, batch, n % pixels, PERI_PASS);
  out.inside = n < PERI_N;
  return out;
}
PERI_DEVICE PERI_NUMBER peri_b(const peri_column& column, const PERI_INDEX k, PERI_PARAMETERS) {
  if (!column.inside) return 0;
  int tap = (int)(k % (PERI_KERNEL_D * PERI_KERNEL_H * PERI_KERNEL_W));
  const int kw = tap % PERI_KERNEL_W; tap /= PERI_KERNEL_W;
  return peri_tap(column, k / (PERI_KERNEL_D * PERI_KERNEL_H * PERI_KERNEL_W), tap / PERI_KERNEL_H, tap % PERI_KERNEL_H,
                  kw, PERI_PASS);
}
PERI_DEVICE PERI_INDEX peri_place(const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {
  const PERI_INDEX pixels = PERI_OUT_D * PERI_OUT_H * PERI_OUT_W;
  return (((n / pixels) * PERI_GROUPS + batch) * PERI_M + m) * pixels + n % pixels;
}
)";
}

DirectConv conv_direct_text(int64_t results, Signature* signature) {
  return {
      "#define PERI_M PERI_OUTPUTS\n#define PERI_K (PERI_CHANNELS * PERI_KERNEL_D * PERI_KERNEL_H * PERI_KERNEL_W)\n"
      "#define PERI_N PERI_COUNT\n#define PERI_COUNT " +
          signature->size(results) + "\n",
      std::string(kDirect)};
}

// A thread waits for memory at each tap; many share the caches' bandwidth.
double direct_guess_ms(const ConvShape& c, const GpuLimits& gpu) {
  const double taps = static_cast<double>(c.channels * c.taps()),
               results = static_cast<double>(c.images * c.groups * c.outputs) * static_cast<double>(c.pixels());
  return (2500 + std::max(taps * 40, taps * results / (11.4 * gpu.multiprocessors))) / 1e6;
}

}  // namespace peri::kernels::cuda
