// Kernel cuda_siblings_mma: products of one left side of float16 or bfloat16 with several weights as one launch on the
// tensor cores of a GPU, each with its epilogue: queries, keys and values of attention, gates and their values.
#include <algorithm>

#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/siblings.hpp"
#include "kernels/cuda/code/tiles_entry.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
using cuda::Signature;
using cuda::TiledProduct;

// Columns are those of the weights side by side; eight neighbours are of one weight.
constexpr std::string_view kSides = R"(
struct peri_a_line { PERI_INDEX at; bool there; };
struct peri_a_step { PERI_INDEX at; bool there; };
PERI_DEVICE peri_a_line peri_a_line_of(const PERI_INDEX batch, const PERI_INDEX m, PERI_PARAMETERS) {
  const peri_a_line out = {m * PERI_K, m < PERI_M};
  return out;
}
PERI_DEVICE peri_a_step peri_a_step_of(const PERI_INDEX batch, const PERI_INDEX k, PERI_PARAMETERS) {
  const peri_a_step out = {k, k < PERI_K};
  return out;
}
PERI_DEVICE const unsigned short* peri_a_from(const peri_a_line& line, const peri_a_step& step, bool* there, PERI_PARAMETERS) {
  *there = line.there && step.there;
  return PERI_X + (*there ? line.at + step.at : 0);
}
struct peri_b_line { const unsigned short* at; PERI_INDEX columns; bool there; };
struct peri_b_step { PERI_INDEX at; bool there; };
PERI_DEVICE peri_b_step peri_b_step_of(const PERI_INDEX batch, const PERI_INDEX k, PERI_PARAMETERS) {
  const peri_b_step out = {k, k < PERI_K};
  return out;
}
PERI_DEVICE const unsigned short* peri_b_from(const peri_b_line& line, const peri_b_step& step, bool* there, PERI_PARAMETERS) {
  *there = line.there && step.there;
  return *there ? line.at + step.at * line.columns : line.at;
}
PERI_DEVICE float peri_sum(const float v, const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {
  return v;
}
PERI_DEVICE void peri_sum_8(float* v, const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {}
PERI_DEVICE PERI_INDEX peri_place(const PERI_INDEX batch, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {
  return m * PERI_N + n;
}
)";

// [..., m, k] times a weight [k, n]: n, and the rest held against what is known of the other products.
Result<int64_t> read_product(const Problem& p, int* left, TiledProduct* out) {
  const ir::Node& n = p.anchor();
  if (n.op != "matmul") return refused("not a matrix product");
  const DType type = n.in(0)->type.dtype;
  if ((type != DType::kF16 && type != DType::kBF16) || n.in(1)->type.dtype != type)
    return refused("takes operands of f16 or of bf16").but_found(std::string(dtype_name(type)));
  const int x = input_index(*p.graph, n.in(0)), w = input_index(*p.graph, n.in(1));
  if (x < 0 || w < 0 || !p.constant[static_cast<size_t>(w)]) return refused("a right side that is not a weight");
  const std::vector<int64_t> rows = dims_of(*n.in(0)), columns = dims_of(*n.in(1));
  if (rows.size() < 2 || columns.size() != 2) return refused("no matrices");
  if (*left >= 0 && x != *left) return refused("another left side");
  if (rows.back() % 8 != 0 || columns[1] % 8 != 0) return refused("rows that are not a multiple of 16 bytes");
  *left = x;
  out->type = type;
  out->k = rows.back();
  out->m = 1;
  for (size_t k = 0; k + 1 < rows.size(); ++k) out->m *= rows[k];
  return columns[1];
}

Result<cuda::ReadTiles> read(const Problem& p) {
  PERI_ASSIGN(const std::vector<ir::Graph> parts, cuda::products_alone(*p.graph));
  cuda::ReadTiles r;
  Signature& s = r.signature;
  TiledProduct& out = r.product;
  int left = -1;
  std::string lines;
  cuda::SiblingFinishes finishes;
  for (size_t k = 0; k < parts.size(); ++k) {
    const Problem q{&parts[k], p.constant};
    PERI_ASSIGN(const int64_t columns, read_product(q, &left, &out));
    const ir::Node& n = q.anchor();
    if (k == 0) {
      PERI_ASSIGN(const std::string x, s.value(q, *n.in(0)));
      lines = "#define PERI_X " + x + "\n" + std::string(kSides) +
              "PERI_DEVICE peri_b_line peri_b_line_of(const PERI_INDEX batch, const PERI_INDEX n, PERI_PARAMETERS) {\n";
    }
    PERI_ASSIGN(const std::string w, s.value(q, *n.in(1)));
    s.begin_results(k);
    PERI_ASSIGN(std::string finish, cuda::finish_wide_text(q, 8, &s));
    finishes.add(std::move(finish), columns, parts.size());
    const std::string begin = std::to_string(out.n), end = std::to_string(out.n + columns);
    lines += "  if (n < " + end + ") {\n    const peri_b_line out = {" + w + " + (n - " + begin + "), " +
             std::to_string(columns) + ", true};\n    return out;\n  }\n";
    if (k + 1 == parts.size()) lines += "  const peri_b_line out = {" + w + ", 0, false};\n  return out;\n}\n";
    out.n += columns;
  }
  s.begin_results(0);
  out.b_along_n = out.a_wide = out.b_wide = out.c_wide = true;
  out.usual_m = {16, 128, 1024, 16384};
  out.functions = cuda::nothing_held_text() + lines + finishes.text("float");
  return r;
}

}  // namespace

extern const Entry cuda_siblings_mma_entry;
const Entry cuda_siblings_mma_entry{{
    .name = "cuda_siblings_mma",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "products of one left side with several weights of f16 and bf16 on a GPU's tensor cores, as one launch",
    .offer = cuda::tiled_offer<read>,
    .instantiate = cuda::tiled_instance<read>,
    .needs = needs_from<cuda::tiled_instance<read>>,
    .samples = {"graph { input x: f16[37,88]; const w: f16[88,72] = seeded(0.1, 1); const u: f16[88,40] = seeded(0.1, "
                "2); a = matmul(x, w); b = matmul(x, u); output a; output b }",
                "graph { input x: bf16[3,21,64]; const w: bf16[64,64] = seeded(0.1, 1); const u: bf16[64,64] = "
                "seeded(0.1, 2); const v: bf16[64,32] = seeded(0.1, 3); const c: bf16[64] = seeded(0.5, 4); const d: "
                "bf16[32] = seeded(0.5, 5); a = matmul(x, w); b = add(a, c); e = matmul(x, u); f = matmul(x, v); g = "
                "add(f, d); h = gelu(g); output b; output e; output h }",
                "graph { input x: f16[1,104]; input r: f16[1,24]; const w: f16[104,24] = seeded(0.1, 1); const u: "
                "f16[104,200] = seeded(0.1, 2); a = matmul(x, w); b = add(a, r); c = matmul(x, u); d = relu(c); output "
                "b; output d }",
                "graph { input x: bf16[130,8]; const w: bf16[8,8] = seeded(0.3, 1); const u: bf16[8,8] = seeded(0.3, "
                "2); const v: bf16[8,8] = seeded(0.3, 3); a = matmul(x, w); b = matmul(x, u); c = matmul(x, v); output "
                "a; output b; output c }"},
    .tunables = cuda::tile_tunables(),
}};

}  // namespace peri::kernels
