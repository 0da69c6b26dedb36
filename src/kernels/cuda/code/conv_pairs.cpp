// The copy and its weights.
#include "kernels/cuda/code/conv_pairs.hpp"

namespace peri::kernels::cuda {

std::optional<ConvPairs> conv_pairs_of(const ConvShape& c, int64_t most) {
  if (c.groups != 1 || c.channels > most || c.kernel[0] != 1 || c.in[0] != 1 || c.pad[0] != 0) return std::nullopt;
  if (c.stride[2] % 2 != 0 || c.in[2] % 2 != 0 || c.dilation[2] != 1 || c.pad[2] < 0) return std::nullopt;
  ConvPairs out{c, most, c.pad[2] % 2};
  out.shape.channels = 2 * most;
  out.shape.in[2] = c.in[2] / 2;
  out.shape.stride[2] = c.stride[2] / 2;
  out.shape.pad[2] = (c.pad[2] + out.first) / 2;
  out.shape.kernel[2] = (c.kernel[2] + out.first + 1) / 2;
  return out;
}

std::string conv_pairs_text(const ConvShape& c, const ConvPairs& pairs, const std::string& type, const std::string& x,
                            bool last, Signature* s, TiledProduct* product, std::string* copy) {
  const std::string image = s->size(c.in[1] * c.in[2]), channels = std::to_string(c.channels),
                    bits = std::to_string(64 / pairs.most), workspace = s->workspace();
  *copy = "((const unsigned short*)" + workspace + ")";
  product->first = "peri_pairs";
  product->first_threads = c.images * c.in[1] * c.in[2];
  product->first_bytes = static_cast<size_t>(product->first_threads) * 8;
  return R"(
PERI_KERNEL __launch_bounds__(256) peri_pairs(PERI_PARAMETERS) {
  const PERI_INDEX step = (PERI_INDEX)gridDim.x * 256, count = )" +
         s->size(c.images * c.in[1] * c.in[2]) + R"(;
  for (PERI_INDEX i = (PERI_INDEX)blockIdx.x * 256 + threadIdx.x; i < count; i += step) {
    const PERI_INDEX image = i / )" +
         image + R"(;
    peri_8 pixel = {{0u, 0u}};
#pragma unroll
    for (int k = 0; k < )" +
         channels + "; ++k) pixel.w[k * " + bits + " / 32] |= (unsigned)(" + type + ")" + x + "[" +
         (last ? "i * " + channels + " + k" : "image * (" + channels + " - 1) * " + image + " + i + k * " + image) +
         "] << k * " + bits + R"( % 32;
    ((peri_8*))" +
         workspace + R"()[i] = pixel;
  }
}
)";
}

namespace {
template <class T>
void pair_up(const ConvShape& c, const ConvPairs& pairs, const T* from, T* to, T turned) {
  const int64_t across = pairs.shape.kernel[2], depth = 2 * pairs.most * pairs.shape.taps();
  for (int64_t o = 0; o < c.outputs; ++o)
    for (int64_t channel = 0; channel < c.channels; ++channel)
      for (int64_t kh = 0; kh < c.kernel[1]; ++kh)
        for (int64_t kw = 0; kw < c.kernel[2]; ++kw) {
          const int64_t at = kw + pairs.first, pair = kh * across + at / 2;
          to[o * depth + (pair * 2 + at % 2) * pairs.most + channel] =
              static_cast<T>(from[((o * c.channels + channel) * c.kernel[1] + kh) * c.kernel[2] + kw] ^ turned);
        }
}
}  // namespace

Result<Tensor> conv_paired_weights(const Tensor& w, const ConvShape& c, const ConvPairs& pairs, uint8_t turned) {
  const bool bytes = dtype_bits(w.dtype()) == 8;
  PERI_ASSIGN(Tensor out,
              Tensor::zeros(bytes ? DType::kI8 : w.dtype(), {c.outputs, 2 * pairs.most * pairs.shape.taps()}));
  const void* const from = w.bytes().data();
  void* const to = const_cast<std::byte*>(out.bytes().data());
  if (bytes)
    pair_up<uint8_t>(c, pairs, static_cast<const uint8_t*>(from), static_cast<uint8_t*>(to), turned);
  else
    pair_up<uint16_t>(c, pairs, static_cast<const uint16_t*>(from), static_cast<uint16_t*>(to), 0);
  return out;
}

double conv_pairs_ms(const ConvShape& c, int64_t element_bytes) {
  constexpr double kLaunchNs = 1500, kBytesPerNs = 2500;  // round numbers of a large GPU
  const double pixels = static_cast<double>(c.images * c.in[1] * c.in[2]);
  return (kLaunchNs + pixels * static_cast<double>(8 + element_bytes * c.channels) / kBytesPerNs) / 1e6;
}

}  // namespace peri::kernels::cuda
