// Kernel cuda_siblings_bytes_mma: products of bytes of one left side with several constant weights (matmul_integer,
// qlinear_matmul) as one launch on the tensor cores of a GPU since sm_80, each with its epilogue, sums exact: queries,
// keys and values of a quantised attention.
#include <algorithm>

#include "kernels/cuda/code/bytes_tiles.hpp"
#include "kernels/cuda/code/chain.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/siblings.hpp"
#include "kernels/cuda/code/tiles_entry.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
using cuda::ByteTiles;
using cuda::Signature;
constexpr int64_t kHalf = 8;  // bytes that are read at once, or twice as many

// [..., k] times a constant weight [k, n]: n, and the rest held against what is known of the other products.
Result<ByteTiles> read_product(const Problem& p, const ir::Value** left, int64_t* columns, cuda::TiledProduct* out) {
  PERI_ASSIGN(const cuda::Bytes b, cuda::read_bytes(p.anchor()));
  if (b.conv) return refused("not a matrix product");
  PERI_ASSIGN(const cuda::MatmulDims d, cuda::matmul_dims_of(dims_of(*b.a), dims_of(*b.b)));
  if (d.batches != 1 || d.w.size() != 2) return refused("weights in batches");
  if (d.k % kHalf != 0 || d.n % kHalf != 0) return refused("rows that are not a multiple of 8 bytes");
  if (b.scaled && d.k > cuda::kMaxByteProducts) return refused("sums of more products");
  if (*left && (*left)->name != b.a->name) return refused("another left side");
  *left = b.a;
  *columns = d.n;
  out->m = d.m;
  out->k = d.k / 2;
  out->type = b.a->type.dtype;
  out->a_halves = d.k % (2 * kHalf) != 0;
  return cuda::read_byte_tiles(p, d.n);
}

Result<cuda::ReadTiles> read(const Problem& p) {
  const ir::Graph& g = *p.graph;
  PERI_ASSIGN(const std::vector<ir::Graph> parts, cuda::products_alone(g));
  cuda::ReadTiles r;
  Signature& s = r.signature;
  cuda::TiledProduct& out = r.product;
  const ir::Value* left = nullptr;
  std::string x, columns_text, early, sums, lines;
  cuda::SiblingFinishes finishes;
  for (size_t k = 0; k < parts.size(); ++k) {
    const Problem q{&parts[k], p.constant};
    int64_t columns = 0;
    PERI_ASSIGN(const ByteTiles t, read_product(q, &left, &columns, &out));
    if (k == 0) {
      PERI_ASSIGN(x, s.value(q, *t.bytes.a));
    }
    const int64_t depth = out.k * 2;
    out.packed.push_back({t.weights, [depth, columns, turned = t.turned](const Tensor& w) {
                            return cuda::packed_columns(w, depth, columns, turned);
                          }});
    const std::string weights = s.packed(out.packed.size() - 1), suffix = "_" + std::to_string(k);
    PERI_ASSIGN(const cuda::ByteColumns of,
                cuda::byte_column_text(
                    q, t, columns, "n",
                    [depth, columns, t](const Tensor& w) { return cuda::sums_of_columns(w, depth, columns, t); },
                    suffix, &s, &out));
    columns_text += of.text;
    s.begin_results(k);
    PERI_ASSIGN(std::string finish, cuda::finish_wide_text(q, 8, &s, of.table));
    const std::string begin = std::to_string(out.n), test = finishes.add(std::move(finish), columns, parts.size());
    early += test + "return peri_early_of" + suffix + "(batch, n - " + begin + ", PERI_PASS);\n";
    sums += test + "return peri_sum_of" + suffix + "(v, c, row, PERI_PASS);\n";
    lines += test + "return " + weights + " + (n - " + begin + ") * PERI_DEPTH;\n";
    out.n += columns;
  }
  s.begin_results(0);
  out.a_wide = out.b_wide = out.c_wide = true;
  out.usual_m = {16, 128, 1024, 16384};
  const auto function = [](const char* head, const std::string& body) {
    return std::string("PERI_DEVICE ") + head + ", PERI_PARAMETERS) {\n" + body + "}\n";
  };
  const int64_t depth = (out.k * 2 + 15) / 16 * 8;  // of a column, in pairs
  out.functions =
      format("#define PERI_DEPTH %lld\n", static_cast<long long>(depth)) + cuda::byte_rows_text(x) +
      cuda::nothing_held_text() + std::string(cuda::byte_structs()) + columns_text +
      function("const unsigned short* peri_column_at(const PERI_INDEX n", lines) +
      "struct peri_b_line { const unsigned short* at; bool there; };\n"
      "struct peri_b_step { PERI_INDEX at; bool there; };\n" +
      function(
          "peri_b_line peri_b_line_of(const PERI_INDEX, const PERI_INDEX n",
          "  const bool there = PERI_WHOLE_N || n < PERI_N;\n  const peri_b_line out = {peri_column_at(there ? n : 0, "
          "PERI_PASS), there};\n  return out;\n") +
      function("peri_b_step peri_b_step_of(const PERI_INDEX, const PERI_INDEX k",
               "  const peri_b_step out = {k, PERI_WHOLE_K || k < PERI_K};\n  return out;\n") +
      function("const unsigned short* peri_b_from(const peri_b_line& line, const peri_b_step& step, bool* there",
               "  *there = line.there && step.there;\n  return line.at + step.at;\n") +
      function("peri_early_one peri_early_of(const PERI_INDEX batch, const PERI_INDEX n", early) +
      function("int peri_sum_of(const float v, const peri_early_one& c, const int row, const PERI_INDEX n", sums) +
      std::string(cuda::byte_ends()) + finishes.text("int");
  return r;
}

}  // namespace

extern const Entry cuda_siblings_bytes_mma_entry;
const Entry cuda_siblings_bytes_mma_entry{{
    .name = "cuda_siblings_bytes_mma",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "products of bytes of one left side with several weights on a GPU's tensor cores, as one launch, exact",
    .offer = cuda::tiled_offer<read>,
    .instantiate = cuda::tiled_instance<read>,
    .needs = needs_from<cuda::tiled_instance<read>>,
    .samples =
        {"graph { input x: u8[37,88]; const z: u8[] = [9]; const w: i8[88,72] = seeded(40, 1); const u: i8[88,40] = "
         "seeded(40, 2); a = matmul_integer(x, w, z); b = matmul_integer(x, u, z); output a; output b }",
         // A bias, a table behind the chain, weights around a zero point of their own, scales by column.
         "graph { input x: u8[3,21,64]; const s: f32[] = [0.02]; const z: u8[] = [7]; const w: i8[64,64] = seeded(40, "
         "1); const e: u8[64,64] = seeded(60, 2); const f: i8[64,32] = seeded(40, 3); const t: f32[64] = "
         "seeded(0.004, 4); const k: f32[] = [0.003]; const v: i8[] = [0]; const n: u8[] = [121]; const q: f32[] = "
         "[0.05]; const o: u8[] = [99]; const b: f32[64] = seeded(2, 5); const l: u8[256] = seeded(90, 6); a = "
         "qlinear_matmul(x, s, z, w, t, v, q, o); c = from_bytes(a, q, o); d = add(c, b); g = to_bytes(d, q, o); h = "
         "byte_table(g, l); i = qlinear_matmul(x, s, z, e, k, n, q, o); j = qlinear_matmul(x, s, z, f, k, v, q, o); m "
         "= byte_table(j, l); output h; output i; output m }"},
    .tunables = cuda::tile_tunables(),
}};

}  // namespace peri::kernels
