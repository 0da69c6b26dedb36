// Kernel cuda_gemm: matrix products (matmul, gemm) with the element-wise chain after them, on a GPU, any sizes and
// batches, sums in float32, or in float64 where product.hpp offers those.
#include <algorithm>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/entry.hpp"
#include "kernels/cuda/code/gemm_sum.hpp"
#include "kernels/cuda/code/matrices.hpp"
#include "kernels/cuda/code/product.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
using Operand = cuda::MatrixOperand;
using cuda::Product;
using cuda::Signature;

Status check_types(const ir::Node& n) {
  for (const ir::Value* v : n.inputs)
    if (v && v->type.dtype != DType::kF32 && v->type.dtype != DType::kF16 && v->type.dtype != DType::kBF16)
      return refused("takes f32, f16 and bf16 only").but_found(std::string(dtype_name(v->type.dtype)));
  return Ok{};
}

// Where four neighbours are, for a product that is wide.
std::string addresses(const Operand& a, const Operand& b, const Product& product) {
  std::string out;
  if (product.a_wide)
    out +=
        "PERI_DEVICE const float* peri_a_from(const PERI_INDEX base, const PERI_INDEX m, const PERI_INDEX k, "
        "PERI_PARAMETERS) {\n  return " +
        a.name + " + (base + " + a.at + ");\n}\n";
  if (product.b_wide)
    out +=
        "PERI_DEVICE const float* peri_b_from(const PERI_INDEX batch, const PERI_INDEX k, const PERI_INDEX n, "
        "PERI_PARAMETERS) {\n  return " +
        b.name + " + (peri_b_base(batch, PERI_PASS) + " + b.at + ");\n}\n";
  return out;
}

struct Read {
  Product product;
  Signature signature;
};

Status read_matmul(const ir::Node& n, Operand* a, Operand* b, Read* r) {
  PERI_ASSIGN(const cuda::MatmulDims d, cuda::matmul_dims(n));
  Product& out = r->product;
  out.m = d.m;
  out.k = d.k;
  out.n = d.n;
  out.batch = d.batches;
  Signature& s = r->signature;
  a->at = "m * PERI_K + k";
  b->at = "k * PERI_N + n";
  a->base = cuda::batch_offset(d.x, d.batch, out.m * out.k, &s);
  b->base = cuda::batch_offset(d.w, d.batch, out.k * out.n, &s);
  return Ok{};
}

Status read_gemm(const ir::Node& n, Operand* a, Operand* b, Read* r) {
  const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.out());
  Product& out = r->product;
  const bool across = n.i("transA") != 0, down = n.i("transB") != 0;
  out.m = y[0];
  out.n = y[1];
  out.k = across ? x[0] : x[1];
  out.a_along_m = across;
  out.b_along_k = down;
  a->at = across ? "k * PERI_M + m" : "m * PERI_K + k";
  b->at = down ? "n * PERI_K + k" : "k * PERI_N + n";
  a->base = b->base = "  return 0;\n";
  return Ok{};
}

Result<Read> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "gemm" && n.op != "matmul") return refused("not a matrix product");
  PERI_TRY(check_types(n));
  Read r;
  Operand a, b;
  PERI_ASSIGN(a.name, r.signature.value(p, *n.in(0)));
  PERI_ASSIGN(b.name, r.signature.value(p, *n.in(1)));
  a.dtype = n.in(0)->type.dtype;
  b.dtype = n.in(1)->type.dtype;
  Product& out = r.product;
  out.few = a.dtype != DType::kF32;
  PERI_TRY(n.op == "gemm" ? read_gemm(n, &a, &b, &r) : read_matmul(n, &a, &b, &r));
  out.a_wide =
      a.dtype == DType::kF32 && (out.a_along_m ? out.m : out.k) % 4 == 0 && input_index(*p.graph, n.in(0)) >= 0;
  out.b_wide =
      b.dtype == DType::kF32 && (out.b_along_k ? out.k : out.n) % 4 == 0 && input_index(*p.graph, n.in(1)) >= 0;
  PERI_ASSIGN(const std::string sum, cuda::gemm_sum_text(p, n, &r.signature));
  PERI_ASSIGN(const std::string finish, cuda::finish_text(p, true, &r.signature));
  out.functions = cuda::matrices_text("float", a, b) + addresses(a, b, out) + sum + finish;
  return r;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(cuda::check_gpu(target));
  PERI_ASSIGN(const Read r, read(p));
  return cuda::product_offers(p, r.product, cuda::limits_of(target));
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config,
                                              const InstantiateContext& context) {
  PERI_ASSIGN(Read r, read(p));
  return cuda::product_instance(r.product, config, cuda::most_elements(p), cuda::limits_of(*context.target),
                                &r.signature);
}
}  // namespace

extern const Entry cuda_gemm_entry;
const Entry cuda_gemm_entry =
    cuda::entry_of<offer, instantiate>("cuda_gemm", "matrix products on a GPU with their epilogue");

}  // namespace peri::kernels
