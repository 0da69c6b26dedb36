// Kernel cuda_gemm: matrix products (matmul, gemm) with the element-wise chain after them, on a GPU, any sizes and
// batches, sums in float32.
#include <algorithm>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/entry.hpp"
#include "kernels/cuda/code/product.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
using cuda::Product;
using cuda::Signature;

Status check_types(const ir::Node& n) {
  for (const ir::Value* v : n.inputs)
    if (v && v->type.dtype != DType::kF32 && v->type.dtype != DType::kF16 && v->type.dtype != DType::kBF16)
      return refused("takes f32, f16 and bf16 only").but_found(std::string(dtype_name(v->type.dtype)));
  return Ok{};
}

// The place of an operand's matrix by the batch's coordinates.
std::string batch_offset(const std::vector<int64_t>& dims, const std::vector<int64_t>& batch, int64_t matrix,
                         Signature* s) {
  std::string out = "  PERI_INDEX rest = batch, at = 0;\n";
  int64_t step = matrix;
  for (size_t k = batch.size(); k-- > 0;) {
    const size_t missing = batch.size() + 2 - dims.size();
    const int64_t own = k >= missing ? dims[k - missing] : 1;
    if (own != 1) out += "  at += rest % " + s->size(batch[k]) + " * " + s->size(step) + ";\n";
    if (k > 0) out += "  rest /= " + s->size(batch[k]) + ";\n";
    step *= own;
  }
  return out + "  return at;\n";
}

// An operand: elements of a batch's matrix from `base` on, in the order of memory.
struct Operand {
  std::string name, at;  // of its parameter; "m * PERI_K + k"
  std::string base;      // text of a function's body
  DType dtype = DType::kF32;
  std::string element() const { return cuda::loaded(dtype, name + "[base + " + at + "]"); }
};

std::string operands(const Operand& a, const Operand& b) {
  return "PERI_DEVICE PERI_INDEX peri_a_base(const PERI_INDEX batch, PERI_PARAMETERS) {\n" + a.base +
         "}\nPERI_DEVICE PERI_INDEX peri_b_base(const PERI_INDEX batch, PERI_PARAMETERS) {\n" + b.base +
         "}\nPERI_DEVICE float peri_a(const PERI_INDEX base, const PERI_INDEX m, const PERI_INDEX k, "
         "PERI_PARAMETERS) {\n  return " +
         a.element() +
         ";\n}\nstruct peri_column { PERI_INDEX base, n; bool inside; };\n"
         "PERI_DEVICE peri_column peri_column_of(const PERI_INDEX batch, const PERI_INDEX n, PERI_PARAMETERS) {\n"
         "  const peri_column out = {peri_b_base(batch, PERI_PASS), n, n < PERI_N};\n  return out;\n}\n"
         "PERI_DEVICE float peri_b(const peri_column& column, const PERI_INDEX k, PERI_PARAMETERS) {\n"
         "  if (!column.inside) return 0.0f;\n  const PERI_INDEX base = column.base, n = column.n;\n  return " +
         b.element() +
         ";\n}\nPERI_DEVICE PERI_INDEX peri_place(const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, "
         "PERI_PARAMETERS) {\n  return (batch * PERI_M + m) * PERI_N + n;\n}\n";
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

std::string sum_text(const std::string& value) {
  return "PERI_DEVICE float peri_sum(const float sum, const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, "
         "PERI_PARAMETERS) {\n  return " +
         value + ";\n}\n";
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
  a->base = batch_offset(d.x, d.batch, out.m * out.k, &s);
  b->base = batch_offset(d.w, d.batch, out.k * out.n, &s);
  out.functions = sum_text("sum");
  return Ok{};
}

Status read_gemm(const Problem& p, const ir::Node& n, Operand* a, Operand* b, Read* r) {
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
  std::string value = format("(float)(%.9g) * sum", n.f("alpha", 1.0));
  if (n.f("alpha", 1.0) == 1.0) value = "sum";
  if (n.in(2)) {
    PERI_ASSIGN(const std::string c, r->signature.value(p, *n.in(2)));
    std::vector<int64_t> d = dims_of(*n.in(2));
    while (d.size() < 2) d.insert(d.begin(), 1);
    std::string at = d[0] == 1 ? "" : d[1] == 1 ? "m" : "m * PERI_N";
    if (d[1] != 1) at += at.empty() ? "n" : " + n";
    const std::string element = cuda::loaded(n.in(2)->type.dtype, c + "[" + (at.empty() ? "0" : at) + "]");
    const double beta = n.f("beta", 1.0);
    value += beta == 1.0 ? " + " + element : format(" + (float)(%.9g) * ", beta) + element;
  }
  out.functions = sum_text(value);
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
  PERI_TRY(n.op == "gemm" ? read_gemm(p, n, &a, &b, &r) : read_matmul(n, &a, &b, &r));
  out.a_wide =
      a.dtype == DType::kF32 && (out.a_along_m ? out.m : out.k) % 4 == 0 && input_index(*p.graph, n.in(0)) >= 0;
  out.b_wide =
      b.dtype == DType::kF32 && (out.b_along_k ? out.k : out.n) % 4 == 0 && input_index(*p.graph, n.in(1)) >= 0;
  PERI_ASSIGN(const std::string finish, cuda::finish_text(p, true, &r.signature));
  out.functions = operands(a, b) + addresses(a, b, out) + out.functions + finish;
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
    cuda::entry_of<offer, instantiate>("cuda_gemm", "matrix products on a GPU with their epilogue, sums in float32");

}  // namespace peri::kernels
