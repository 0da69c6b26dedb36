// Kernel cuda_conv_transpose_product: transposed convolutions of float32 whose windows lie beside each other (strides
// equal to the kernel's size, no pads), on a GPU: a tiled product whose rows are the taps of all outputs.
#include <algorithm>
#include <array>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/product.hpp"

namespace peri::kernels {
extern const Entry cuda_conv_transpose_product_entry;

namespace {
using cuda::Product;
using cuda::Signature;

// Always three dimensions, the missing ones of size 1 in front; channels and outputs are per group.
struct Shape {
  int64_t images = 0, groups = 1, channels = 0, outputs = 0;
  std::array<int64_t, 3> in = {1, 1, 1}, kernel = {1, 1, 1};
  int64_t pixels() const { return in[0] * in[1] * in[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "conv_transpose") return refused("not a transposed convolution");
  for (const ir::Value* v : n.inputs)
    if (v && v->type.dtype != DType::kF32)
      return refused("takes f32 only").but_found(std::string(dtype_name(v->type.dtype)));
  const std::vector<int64_t> x = dims_of(*n.in(0)), w = dims_of(*n.in(1)), y = dims_of(*n.out());
  if (x.size() < 3 || x.size() > 5) return refused("takes one to three spatial dimensions");
  const size_t rank = x.size() - 2;
  const std::vector<int64_t> strides = n.ints("strides", std::vector<int64_t>(rank, 1));
  if (strides.size() != rank || w.size() != x.size() || y.size() != x.size()) return refused("bad attributes");
  Shape s;
  s.images = x[0];
  s.groups = n.i("group", 1);
  if (s.groups < 1 || x[1] % s.groups != 0 || w[0] != x[1] || y[1] != w[1] * s.groups) return refused("uneven groups");
  s.channels = x[1] / s.groups;
  s.outputs = w[1];
  for (size_t k = 0; k < rank; ++k) {
    // Then there is neither a pad nor a dilation that moves an element.
    if (strides[k] != w[2 + k] || y[2 + k] != x[2 + k] * strides[k]) return refused("its windows overlap, or are cut");
    s.in[3 - rank + k] = x[2 + k];
    s.kernel[3 - rank + k] = w[2 + k];
  }
  const std::vector<int64_t> none(2 * rank, 0), ones(rank, 1), pads = n.ints("pads", none);
  if (pads != none || n.ints("dilations", ones) != ones || n.s("auto_pad", "NOTSET") != "NOTSET" ||
      n.has("output_shape") || n.ints("output_padding", std::vector<int64_t>(rank, 0)) != std::vector<int64_t>(rank, 0))
    return refused("takes no pads and no dilations");
  return s;
}

Product product_of(const Shape& s) {
  Product out;
  out.batch = s.groups;
  out.m = s.outputs * s.taps();
  out.n = s.images * s.pixels();
  out.k = s.channels;
  out.a_along_m = true;
  out.a_wide = out.m % 4 == 0;
  out.b_wide = s.pixels() % 4 == 0;
  return out;
}

constexpr std::string_view kFunctions = R"(
PERI_DEVICE PERI_INDEX peri_a_base(const PERI_INDEX batch, PERI_PARAMETERS) { return batch * PERI_K * PERI_M; }
PERI_DEVICE const float* peri_a_from(const PERI_INDEX base, const PERI_INDEX m, const PERI_INDEX k, PERI_PARAMETERS) {
  return PERI_W + (base + k * PERI_M + m);
}
PERI_DEVICE float peri_a(const PERI_INDEX base, const PERI_INDEX m, const PERI_INDEX k, PERI_PARAMETERS) {
  return *peri_a_from(base, m, k, PERI_PASS);
}
PERI_DEVICE const float* peri_b_from(const PERI_INDEX batch, const PERI_INDEX k, const PERI_INDEX n, PERI_PARAMETERS) {
  return PERI_X + (((n / PERI_PIXELS * PERI_GROUPS + batch) * PERI_K + k) * PERI_PIXELS + n % PERI_PIXELS);
}
struct peri_column { PERI_INDEX batch, n; bool inside; };
PERI_DEVICE peri_column peri_column_of(const PERI_INDEX batch, const PERI_INDEX n, PERI_PARAMETERS) {
  const peri_column out = {batch, n, n < PERI_N};
  return out;
}
PERI_DEVICE float peri_b(const peri_column& column, const PERI_INDEX k, PERI_PARAMETERS) {
  return column.inside ? *peri_b_from(column.batch, k, column.n, PERI_PASS) : 0.0f;
}
PERI_DEVICE PERI_INDEX peri_place(const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {
  PERI_INDEX tap = m % PERI_TAPS, pixel = n % PERI_PIXELS;
  const PERI_INDEX output = (n / PERI_PIXELS * PERI_GROUPS + batch) * PERI_OUTPUTS + m / PERI_TAPS;
  const PERI_INDEX w = pixel % PERI_IN_W * PERI_KERNEL_W + tap % PERI_KERNEL_W; pixel /= PERI_IN_W; tap /= PERI_KERNEL_W;
  const PERI_INDEX h = pixel % PERI_IN_H * PERI_KERNEL_H + tap % PERI_KERNEL_H; pixel /= PERI_IN_H; tap /= PERI_KERNEL_H;
  const PERI_INDEX d = pixel * PERI_KERNEL_D + tap;
  return ((output * (PERI_IN_D * PERI_KERNEL_D) + d) * (PERI_IN_H * PERI_KERNEL_H) + h) * (PERI_IN_W * PERI_KERNEL_W) + w;
}
PERI_DEVICE float peri_sum(const peri_sum_type sum, const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n,
                           PERI_PARAMETERS) {
  return sum + peri_bias(batch * PERI_OUTPUTS + m / PERI_TAPS, PERI_PASS);
}
)";

Result<std::unique_ptr<Instance>> plan(const Problem& p, const Shape& shape, std::string_view config,
                                       const cuda::GpuLimits& gpu) {
  const ir::Node& n = p.anchor();
  Product product = product_of(shape);
  Signature s;
  std::string& out = product.functions;
  const auto define = [&](const std::string& name, const std::string& value) {
    out += "#define PERI_" + name + " " + value + "\n";
  };
  PERI_ASSIGN(const std::string x, s.value(p, *n.in(0)));
  PERI_ASSIGN(const std::string w, s.value(p, *n.in(1)));
  std::string bias = "0.0f";
  if (n.in(2)) {
    PERI_ASSIGN(bias, s.value(p, *n.in(2)));
    bias += "[at]";
  }
  define("X", x);
  define("W", w);
  define("GROUPS", std::to_string(shape.groups));
  define("OUTPUTS", std::to_string(shape.outputs));
  define("TAPS", std::to_string(shape.taps()));
  define("PIXELS", s.size(shape.pixels()));
  const char* const axis[] = {"D", "H", "W"};
  for (size_t d = 0; d < 3; ++d) {
    define(std::string("KERNEL_") + axis[d], std::to_string(shape.kernel[d]));
    define(std::string("IN_") + axis[d], shape.in[d] == 1 ? "1" : s.size(shape.in[d]));
  }
  out += "PERI_DEVICE float peri_bias(const PERI_INDEX at, PERI_PARAMETERS) { return " + bias + "; }\n";
  PERI_ASSIGN(const std::string finish, cuda::finish_text(p, true, &s));
  out += std::string(kFunctions) + finish;
  return cuda::product_instance(product, config, cuda::most_elements(p), gpu, &s);
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_ASSIGN(const Shape shape, read(p));
  const cuda::GpuLimits gpu = cuda::limits_of(target);
  std::vector<Offer> out = cuda::product_offers(p, product_of(shape), gpu);
  PERI_TRY(plan(p, shape, out.front().config, gpu));
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config,
                                              const InstantiateContext& context) {
  PERI_ASSIGN(const Shape shape, read(p));
  return plan(p, shape, config, cuda::limits_of(*context.target));
}
}  // namespace

const Entry cuda_conv_transpose_product_entry{{
    .name = "cuda_conv_transpose_product",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "transposed convolutions of f32 on a GPU whose windows lie beside each other, as a product",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f32[2,24,5,6]; const w: f32[24,10,2,2] = seeded(0.1, 1); const b: f32[10] = "
                "seeded(0.5, 2); y = conv_transpose(x, w, b) {strides=[2,2]}; z = relu(y); output z }",
                "graph { input x: f32[1,8,7]; const w: f32[8,5,3] = seeded(0.1, 1); y = conv_transpose(x, w) "
                "{strides=[3], group=2}; output y }",
                "graph { input x: f32[1,6,2,3,4]; const w: f32[6,3,2,1,3] = seeded(0.1, 1); y = conv_transpose(x, w) "
                "{strides=[2,1,3]}; output y }"},
}};

}  // namespace peri::kernels
