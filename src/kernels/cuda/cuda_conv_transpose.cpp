// Kernel cuda_conv_transpose: transposed convolutions over one to three dimensions with the element-wise chain after
// them, on a GPU: one thread per result, which finds the inputs that contribute to it; sums as in sums.hpp.
#include <array>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/entry.hpp"
#include "kernels/cuda/code/sums.hpp"

namespace peri::kernels {
namespace {
using cuda::KernelLaunch;
using cuda::Signature;

// Always three dimensions, the missing ones of size 1 in front; what attributes and weights fix as numbers of the text.
Result<std::string> defines(const ir::Node& n, Signature* s) {
  const std::vector<int64_t> x = dims_of(*n.in(0)), w = dims_of(*n.in(1)), y = dims_of(*n.out());
  if (x.size() < 3 || x.size() > 5) return refused("takes one to three spatial dimensions");
  if (n.s("auto_pad", "NOTSET") != "NOTSET" || n.has("output_shape")) return refused("its pads are not written");
  const size_t rank = x.size() - 2;
  const std::vector<int64_t> ones(rank, 1), strides = n.ints("strides", ones), dilations = n.ints("dilations", ones),
                                            pads = n.ints("pads", std::vector<int64_t>(2 * rank, 0));
  if (strides.size() != rank || dilations.size() != rank || pads.size() != 2 * rank) return refused("bad attributes");
  const int64_t groups = n.i("group", 1);
  if (groups < 1 || x[1] % groups != 0 || w[0] != x[1] || y[1] != w[1] * groups) return refused("uneven groups");
  std::string out;
  const auto define = [&](const std::string& name, const std::string& value) {
    out += "#define PERI_" + name + " " + value + "\n";
  };
  const char* const axis[] = {"D", "H", "W"};
  for (size_t d = 0; d < 3; ++d) {
    const bool here = d + rank >= 3;
    const size_t k = d + rank - 3;
    const auto fixed = [&](const char* name, int64_t v) {
      define(std::string(name) + axis[d], format("(%lld)", static_cast<long long>(v)));
    };
    fixed("KERNEL_", here ? w[2 + k] : 1);
    fixed("STRIDE_", here ? strides[k] : 1);
    fixed("DILATION_", here ? dilations[k] : 1);
    fixed("PAD_", here ? pads[k] : 0);
    define(std::string("IN_") + axis[d], here ? s->size(x[2 + k]) : "1");
    define(std::string("OUT_") + axis[d], here ? s->size(y[2 + k]) : "1");
  }
  define("GROUPS", std::to_string(groups));
  define("CHANNELS", std::to_string(x[1] / groups));
  define("OUTPUTS", std::to_string(w[1]));
  return out;
}

constexpr std::string_view kKernel = R"(
PERI_DEVICE bool peri_reached(const PERI_INDEX at, const int stride, const PERI_INDEX size, PERI_INDEX* from) {
  *from = at / stride;
  return at >= 0 && at % stride == 0 && *from < size;
}
PERI_KERNEL __launch_bounds__(256) peri_conv_transpose(PERI_PARAMETERS) {
  const PERI_INDEX step = (PERI_INDEX)gridDim.x * 256;
  for (PERI_INDEX i = (PERI_INDEX)blockIdx.x * 256 + threadIdx.x; i < PERI_COUNT; i += step) {
    PERI_INDEX rest = i;
    const PERI_INDEX w0 = rest % PERI_OUT_W + PERI_PAD_W; rest /= PERI_OUT_W;
    const PERI_INDEX h0 = rest % PERI_OUT_H + PERI_PAD_H; rest /= PERI_OUT_H;
    const PERI_INDEX d0 = rest % PERI_OUT_D + PERI_PAD_D; rest /= PERI_OUT_D;
    const PERI_INDEX output = rest % (PERI_GROUPS * PERI_OUTPUTS), image = rest / (PERI_GROUPS * PERI_OUTPUTS);
    const PERI_INDEX first = output / PERI_OUTPUTS * PERI_CHANNELS;
    peri_sum_type sum = 0;
    for (int kd = 0; kd < PERI_KERNEL_D; ++kd)
      for (int kh = 0; kh < PERI_KERNEL_H; ++kh)
        for (int kw = 0; kw < PERI_KERNEL_W; ++kw) {
          PERI_INDEX d, h, w;
          const bool reached = peri_reached(d0 - kd * PERI_DILATION_D, PERI_STRIDE_D, PERI_IN_D, &d) &&
                               peri_reached(h0 - kh * PERI_DILATION_H, PERI_STRIDE_H, PERI_IN_H, &h) &&
                               peri_reached(w0 - kw * PERI_DILATION_W, PERI_STRIDE_W, PERI_IN_W, &w);
          if (!reached) continue;
          for (int channel = 0; channel < PERI_CHANNELS; ++channel) {
            const PERI_INDEX in = first + channel;
            const PERI_INDEX x = image * PERI_GROUPS * PERI_CHANNELS + in;
            const PERI_INDEX weight = in * PERI_OUTPUTS + output % PERI_OUTPUTS;
            sum = peri_fma(peri_x(((x * PERI_IN_D + d) * PERI_IN_H + h) * PERI_IN_W + w, PERI_PASS),
                       peri_weight(((weight * PERI_KERNEL_D + kd) * PERI_KERNEL_H + kh) * PERI_KERNEL_W + kw, PERI_PASS),
                       sum);
          }
        }
    peri_finish(i, sum + peri_bias(output, PERI_PASS), PERI_PASS);
  }
}
)";

Result<std::vector<KernelLaunch>> plan(const Problem& p, const cuda::GpuLimits& gpu) {
  const ir::Node& n = p.anchor();
  if (n.op != "conv_transpose") return refused("not a transposed convolution");
  for (const ir::Value* v : n.inputs)
    if (v && v->type.dtype != DType::kF32 && v->type.dtype != DType::kF16 && v->type.dtype != DType::kBF16)
      return refused("takes f32, f16 and bf16 only").but_found(std::string(dtype_name(v->type.dtype)));
  Signature s;
  PERI_ASSIGN(std::string body, defines(n, &s));
  const char* const names[] = {"x", "weight", "bias"};
  for (size_t k = 0; k < 3; ++k) {
    std::string element = "0.0f";
    if (n.in(k)) {
      PERI_ASSIGN(const std::string from, s.value(p, *n.in(k)));
      element = cuda::loaded(n.in(k)->type.dtype, from + "[at]");
    }
    body += std::string("PERI_DEVICE float peri_") + names[k] + "(const PERI_INDEX at, PERI_PARAMETERS) { return " +
            element + "; }\n";
  }
  PERI_ASSIGN(const std::string finish, cuda::finish_text(p, true, &s));
  const int64_t count = cuda::numel_of(*n.out());
  if (count == 0) return std::vector<KernelLaunch>{};
  body += cuda::sums_text(cuda::summed_type(n), gpu) + "#define PERI_COUNT " + s.size(count) + "\n" + finish +
          std::string(kKernel);
  return std::vector<KernelLaunch>{
      s.launch("peri_conv_transpose", s.text(cuda::most_elements(p), body), cuda::blocks_for(count, 256), 256)};
}
}  // namespace

extern const Entry cuda_conv_transpose_entry;
const Entry cuda_conv_transpose_entry = cuda::entry_of<plan>(
    "cuda_conv_transpose", "transposed convolutions on a GPU with their epilogue, one to three dimensions");

}  // namespace peri::kernels
