// Kernel cuda_gemm_mma: matrix products of float16 or bfloat16 (matmul, gemm) on the tensor cores of a GPU since sm_80,
// with the element-wise chain after them, any sizes and batches, sums in float32.
#include <algorithm>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/matrices.hpp"
#include "kernels/cuda/code/tiles_entry.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
using cuda::Signature;
using cuda::TiledProduct;

// A matrix of a batch: elements [row, column], neighbours along columns unless it is stored the other way round.
struct Operand {
  std::string name;           // of its parameter
  std::vector<int64_t> dims;  // with the batch's in front
  bool across = false;        // stored [column, row]
};

// The place of an operand's matrix by the batch's coordinates.
std::string offset_text(const std::vector<int64_t>& dims, const std::vector<int64_t>& batch, int64_t matrix,
                        Signature* s) {
  const std::string out = cuda::batch_steps(dims, batch, matrix, s);
  return out.empty() ? out : "  PERI_INDEX rest = batch;\n" + out;
}

// Lines are what does not run along the depth: rows of a, columns of b.
std::string side(char name, const Operand& o, const std::string& offset, bool wide, bool lines_lie_together) {
  const std::string x(1, name), lines = name == 'a' ? "PERI_M" : "PERI_N";
  const std::string line_at = lines_lie_together ? "line" : "line * PERI_K",
                    step_at = lines_lie_together ? "k * " + lines : "k";
  std::string out =
      "struct peri_" + x + "_line { PERI_INDEX at; bool there; };\nstruct peri_" + x +
      "_step { PERI_INDEX at; bool there; };\nPERI_DEVICE peri_" + x + "_line peri_" + x +
      "_line_of(const PERI_INDEX batch, const PERI_INDEX line, PERI_PARAMETERS) {\n  PERI_INDEX at = " + line_at +
      ";\n" + offset + "  const peri_" + x + "_line out = {at, " + (name == 'b' ? "PERI_WHOLE_N || " : "") + "line < " +
      lines + "};\n  return out;\n}\nPERI_DEVICE peri_" + x + "_step peri_" + x +
      "_step_of(const PERI_INDEX batch, const PERI_INDEX k, PERI_PARAMETERS) {\n  const peri_" + x + "_step out = {" +
      step_at + ", PERI_WHOLE_K || k < PERI_K};\n  return out;\n}\n";
  if (wide)
    return out + "PERI_DEVICE const unsigned short* peri_" + x + "_from(const peri_" + x + "_line& line, const peri_" +
           x + "_step& step, bool* there, PERI_PARAMETERS) {\n  *there = line.there && step.there;\n  return " +
           o.name + " + (line.at + step.at);\n}\n";
  return out + "PERI_DEVICE unsigned peri_" + x + "(const peri_" + x + "_line& line, const peri_" + x +
         "_step& step, PERI_PARAMETERS) {\n  return line.there && step.there ? (unsigned)" + o.name +
         "[line.at + step.at] : 0u;\n}\n";
}

// What is made of a sum: alpha * sum + beta * c[m, n], c of one row, one column or one element too.
struct Addend {
  double alpha = 1, beta = 1;
  std::string name;  // "": none
  DType dtype = DType::kF32;
  std::vector<int64_t> dims = {1, 1};
  bool parameter = false;  // at a multiple of 16 bytes
};
std::string sum_text(const Addend& a, bool wide) {
  const auto scaled = [](double f, const std::string& v) { return f == 1.0 ? v : format("(float)(%.9g) * ", f) + v; };
  const std::string parameters = "const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {\n";
  std::string at = a.dims[0] == 1 ? "" : a.dims[1] == 1 ? "m" : "m * PERI_N";
  if (a.dims[1] != 1) at += at.empty() ? "n" : " + n";
  if (at.empty()) at = "0";
  std::string value = scaled(a.alpha, "v"), eight, column = "#define PERI_COLUMN 0\n";
  if (!a.name.empty()) value += " + " + scaled(a.beta, cuda::loaded(a.dtype, a.name + "[" + at + "]"));
  const std::string one = "PERI_DEVICE float peri_sum(const float v, " + parameters + "  return " + value + ";\n}\n";
  if (wide && a.parameter && a.dims[1] != 1)
    eight = "  float c[8];\n  " + cuda::load_wide(8, a.dtype, a.name + " + " + at, "c") +
            ";\n#pragma unroll\n  for (int e = 0; e < 8; ++e) v[e] = " + scaled(a.alpha, "v[e]") + " + " +
            scaled(a.beta, "c[e]") + ";\n";
  if (!eight.empty() && a.dims[0] == 1)
    column = "#define PERI_COLUMN 1\nPERI_DEVICE float peri_scaled(const float v) { return " + scaled(a.alpha, "v") +
             "; }\nPERI_DEVICE void peri_column_8(float* c, const PERI_INDEX batch, const PERI_INDEX n, "
             "PERI_PARAMETERS) {\n  " +
             cuda::load_wide(8, a.dtype, a.name + " + " + at, "c") +
             ";\n#pragma unroll\n  for (int e = 0; e < 8; ++e) c[e] = " + scaled(a.beta, "c[e]") + ";\n}\n";
  else if (!eight.empty())
    column = "#define PERI_COLUMN 0\n";
  else if (!a.name.empty() || a.alpha != 1.0)
    eight = "#pragma unroll\n  for (int e = 0; e < 8; ++e) v[e] = peri_sum(v[e], batch, m, n + e, PERI_PASS);\n";
  return column + one + "PERI_DEVICE void peri_sum_8(float* v, " + parameters + eight + "}\n";
}

constexpr std::string_view kPlace =
    "PERI_DEVICE PERI_INDEX peri_place(const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, "
    "PERI_PARAMETERS) {\n  return (batch * PERI_M + m) * PERI_N + n;\n}\n";

struct Read {
  TiledProduct product;
  Operand a, b;
  std::vector<int64_t> batch;
  Addend addend;
  Signature signature;
};

Status read_matmul(const ir::Node& n, Read* r) {
  PERI_ASSIGN(cuda::MatmulDims d, cuda::matmul_dims(n));
  TiledProduct& out = r->product;
  out.m = d.m;
  out.k = d.k;
  out.n = d.n;
  out.batch = d.batches;
  r->batch = std::move(d.batch);
  r->a.dims = std::move(d.x);
  r->b.dims = std::move(d.w);
  return Ok{};
}

Status read_gemm(const Problem& p, const ir::Node& n, Read* r) {
  const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.out());
  TiledProduct& out = r->product;
  r->a.across = n.i("transA") != 0;
  r->b.across = n.i("transB") != 0;
  out.m = y[0];
  out.n = y[1];
  out.k = r->a.across ? x[0] : x[1];
  r->a.dims = {out.m, out.k};
  r->b.dims = {out.k, out.n};
  Addend& c = r->addend;
  c.alpha = n.f("alpha", 1.0);
  if (!n.in(2)) return Ok{};
  c.beta = n.f("beta", 1.0);
  c.dtype = n.in(2)->type.dtype;
  if (c.dtype != DType::kF32 && c.dtype != DType::kF16 && c.dtype != DType::kBF16)
    return refused("an addend of another type");
  c.parameter = input_index(*p.graph, n.in(2)) >= 0;
  c.dims = dims_of(*n.in(2));
  while (c.dims.size() < 2) c.dims.insert(c.dims.begin(), 1);
  PERI_ASSIGN(c.name, r->signature.value(p, *n.in(2)));
  return Ok{};
}

Result<Read> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "gemm" && n.op != "matmul") return refused("not a matrix product");
  const DType type = n.in(0)->type.dtype;
  if ((type != DType::kF16 && type != DType::kBF16) || n.in(1)->type.dtype != type)
    return refused("takes two operands of f16 or of bf16").but_found(std::string(dtype_name(type)));
  Read r;
  Signature& s = r.signature;
  for (const size_t k : {0, 1})
    if (input_index(*p.graph, n.in(k)) < 0) return refused("an operand that is not an argument");
  PERI_ASSIGN(r.a.name, s.value(p, *n.in(0)));
  PERI_ASSIGN(r.b.name, s.value(p, *n.in(1)));
  PERI_TRY(n.op == "gemm" ? read_gemm(p, n, &r) : read_matmul(n, &r));
  TiledProduct& out = r.product;
  out.type = type;
  out.a_along_m = r.a.across;
  out.b_along_n = !r.b.across;
  out.a_wide = (out.a_along_m ? out.m : out.k) % 8 == 0;
  out.b_wide = (out.b_along_n ? out.n : out.k) % 8 == 0;
  out.c_wide = out.n % 8 == 0;
  out.usual_m = {16, 128, 1024, 16384};
  out.chain_bytes = cuda::chain_bytes(p);
  out.sizes_are_numbers = p.constant[static_cast<size_t>(input_index(*p.graph, n.in(1)))];
  const std::string a_offset = offset_text(r.a.dims, r.batch, out.m * out.k, &s),
                    b_offset = offset_text(r.b.dims, r.batch, out.k * out.n, &s);
  PERI_ASSIGN(const std::string finish, cuda::finish_held_text(p, &s));
  out.functions = side('a', r.a, a_offset, out.a_wide, out.a_along_m) +
                  side('b', r.b, b_offset, out.b_wide, out.b_along_n) + std::string(kPlace) +
                  sum_text(r.addend, out.c_wide) + finish;
  return r;
}

}  // namespace

extern const Entry cuda_gemm_mma_entry;
const Entry cuda_gemm_mma_entry{{
    .name = "cuda_gemm_mma",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "matrix products of f16 and bf16 on a GPU's tensor cores with their epilogue, sums in float32",
    .offer = cuda::tiled_offer<read>,
    .instantiate = cuda::tiled_instance<read>,
    .needs = needs_from<cuda::tiled_instance<read>>,
    .samples = {"graph { input x: f16[37,88]; const w: f16[88,72] = seeded(0.1, 1); y = matmul(x, w); output y }",
                "graph { input x: bf16[21,70]; const w: bf16[33,70] = seeded(0.1, 1); const b: bf16[33] = seeded(0.5, "
                "2); y = gemm(x, w, b) {transB=1}; z = gelu(y); output z }",
                "graph { input x: f16[3,17,40]; input w: f16[3,40,9]; y = matmul(x, w); output y }",
                "graph { input x: f16[19,24]; input w: f16[24,16]; input r: f16[19,16]; y = matmul(x, w); z = add(y, "
                "r); output z }",
                "graph { input x: bf16[19,24]; const w: bf16[24,16] = seeded(0.2, 1); input r: bf16[19,16]; y = "
                "matmul(x, w); z = gelu(y); u = add(z, r); output y; output u }"},
    .tunables = cuda::tile_tunables(),
}};

}  // namespace peri::kernels
