// Kernel cuda_bytes: products and convolutions of bytes (matmul_integer, conv_integer, qlinear_matmul, qlinear_conv)
// with the element-wise chain after them, on a GPU: sums in int32, exact; what is scaled is rounded from float64, as
// the reference does.
#include <algorithm>
#include <optional>

#include "kernels/cuda/code/bytes.hpp"
#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/conv_product.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/entry.hpp"
#include "kernels/cuda/code/matrices.hpp"
#include "kernels/cuda/code/product.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
using cuda::Bytes;
using cuda::Product;
using cuda::Signature;

struct Made {
  Product product;
  Signature signature;
  std::optional<cuda::ConvShape> conv;
  const ir::Node* table = nullptr;  // Rounding::table
};

// int peri_sum(sum, batch, m, n) of `column`.
Result<std::string> sum_text(const Problem& p, const Bytes& b, int64_t columns, const std::string& column, Made* made) {
  PERI_ASSIGN(const cuda::Rounding r, cuda::read_rounding(p, b, columns, &made->signature, &made->product.packed));
  made->table = r.table;
  return r.text() +
         "PERI_DEVICE int peri_sum(const int sum, const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, "
         "PERI_PARAMETERS) {\n  const PERI_INDEX column = " +
         column + ";\n  return peri_rounded(sum, " + r.bias + ", " + r.factor_or_none() + ", PERI_PASS);\n}\n";
}

Result<std::string> conv_functions(const Problem& p, const Bytes& b, Made* made) {
  PERI_ASSIGN(const cuda::ConvShape c, cuda::read_conv_of(p.anchor(), *b.a, *b.b));
  made->conv = c;
  Product& out = made->product;
  out.batch = c.groups;
  out.m = c.outputs;
  out.n = c.images * c.pixels();
  out.k = c.channels * c.taps();
  Signature& s = made->signature;
  PERI_ASSIGN(const std::string x, s.value(p, *b.a));
  PERI_ASSIGN(const std::string w, s.value(p, *b.b));
  PERI_ASSIGN(const std::string x_zero, cuda::zero_text(p, b.a_zero, "0", 1, &s));
  PERI_ASSIGN(const std::string w_zero, cuda::zero_text(p, b.b_zero, "at / PERI_K", c.groups * c.outputs, &s));
  PERI_ASSIGN(const std::string sum, sum_text(p, b, c.groups * c.outputs, "batch * PERI_M + m", made));
  return cuda::conv_text(c, "int", "(int)" + x + "[at]" + x_zero, "(int)" + w + "[at]" + w_zero, &s) +
         std::string(cuda::conv_product_text()) + sum;
}

Result<std::string> matrix_functions(const Problem& p, const Bytes& b, Made* made) {
  PERI_ASSIGN(const cuda::MatmulDims d, cuda::matmul_dims_of(dims_of(*b.a), dims_of(*b.b)));
  Product& out = made->product;
  out.m = d.m;
  out.k = d.k;
  out.n = d.n;
  out.batch = d.batches;
  Signature& s = made->signature;
  cuda::MatrixOperand left{{}, "m * PERI_K + k", {}, b.a->type.dtype}, right{{}, "k * PERI_N + n", {}, b.b->type.dtype};
  PERI_ASSIGN(left.name, s.value(p, *b.a));
  PERI_ASSIGN(right.name, s.value(p, *b.b));
  left.base = cuda::batch_offset(d.x, d.batch, d.m * d.k, &s);
  right.base = cuda::batch_offset(d.w, d.batch, d.k * d.n, &s);
  PERI_ASSIGN(left.less, cuda::zero_text(p, b.a_zero, "0", 1, &s));
  PERI_ASSIGN(right.less, cuda::zero_text(p, b.b_zero, "n", d.n, &s));
  PERI_ASSIGN(const std::string sum, sum_text(p, b, d.n, "n", made));
  return cuda::matrices_text("int", left, right) + sum;
}

Result<Made> make(const Problem& p) {
  PERI_ASSIGN(const Bytes b, cuda::read_bytes(p.anchor()));
  PERI_TRY(cuda::check_row_major(*p.graph));
  Made out;
  out.product.whole = true;
  PERI_ASSIGN(const std::string functions, b.conv ? conv_functions(p, b, &out) : matrix_functions(p, b, &out));
  if (b.scaled && out.product.k > cuda::kMaxByteProducts)
    return refused("sums of more than %lld products", static_cast<long long>(cuda::kMaxByteProducts));
  PERI_ASSIGN(const std::string finish, cuda::finish_text(p, true, &out.signature, out.table));
  out.product.functions = functions + finish;
  return out;
}

// A product of few rows leaves most of a tile idle: groups of few output channels are computed one by one, too.
constexpr std::string_view kDirect = "way=direct";
bool is_thin(const Made& m) { return m.conv && m.conv->groups > 1 && m.conv->outputs < 8; }

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_ASSIGN(const Made made, make(p));
  const cuda::GpuLimits gpu = cuda::limits_of(target);
  std::vector<Offer> out = cuda::product_offers(p, made.product, gpu);
  if (is_thin(made)) {
    Offer direct = cuda::plain_offer(p)[0];
    direct.config = std::string(kDirect);
    direct.guess_ms = cuda::direct_guess_ms(*made.conv, gpu);
    out.insert(out.begin(), std::move(direct));
  }
  return out;
}

Result<std::unique_ptr<Instance>> direct(const Problem& p, Made made) {
  if (!made.conv) return invalid("a matrix product has no way=direct");
  const cuda::ConvShape& c = *made.conv;
  const int64_t count = c.images * c.groups * c.outputs * c.pixels();
  const cuda::DirectConv text = cuda::conv_direct_text(count, &made.signature);
  const std::string body =
      "typedef int peri_sum_type;\nPERI_DEVICE int peri_fma(int a, int b, int sum) { return (int)((unsigned)a * "
      "(unsigned)b + (unsigned)sum); }\n" +
      text.sizes + made.product.functions + text.kernel;
  std::vector<cuda::KernelLaunch> out;
  if (count > 0)
    out.push_back(made.signature.launch("peri_conv_direct", made.signature.text(cuda::most_elements(p), body),
                                        cuda::blocks_for(count, 256), 256));
  return cuda::LaunchInstance::make(std::move(out), 0, std::move(made.product.packed));
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config,
                                              const InstantiateContext& context) {
  PERI_ASSIGN(Made made, make(p));
  if (config == kDirect) return direct(p, std::move(made));
  return cuda::product_instance(made.product, config, cuda::most_elements(p), cuda::limits_of(*context.target),
                                &made.signature);
}
}  // namespace

extern const Entry cuda_bytes_entry;
const Entry cuda_bytes_entry = [] {
  Entry e = cuda::entry_of<offer, instantiate>(
      "cuda_bytes", "products and convolutions of bytes on a GPU with their epilogue, exact");
  e.kernel.samples = {
      "graph { input x: u8[1,6,8,6]; const s: f32[] = [0.02]; const z: u8[] = [3]; const w: i8[6,1,3,3] = seeded(40, "
      "1); "
      "const t: f32[] = [0.004]; const v: i8[] = [0]; const q: f32[] = [0.05]; const o: u8[] = [100]; const l: u8[256] "
      "= "
      "seeded(90, 2); y = qlinear_conv(x, s, z, w, t, v, q, o) {group=6}; u = byte_table(y, l); output u }"};
  return e;
}();

}  // namespace peri::kernels
