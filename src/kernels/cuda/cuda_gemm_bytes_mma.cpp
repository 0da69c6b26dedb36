// Kernel cuda_gemm_bytes_mma: products of bytes by constant weights (matmul_integer, qlinear_matmul) on the tensor
// cores of a GPU since sm_80, with the element-wise chain after them, sums in int32, exact. Rows are a multiple of 8
// bytes.
#include "kernels/cuda/code/bytes_tiles.hpp"
#include "kernels/cuda/code/conv_tiles.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/tiles_entry.hpp"

namespace peri::kernels {
namespace {
using cuda::ByteTiles;
using cuda::Signature;
constexpr int64_t kHalf = 8;  // bytes that are read at once, or twice as many

Result<cuda::ReadTiles> read(const Problem& p) {
  PERI_ASSIGN(const cuda::Bytes b, cuda::read_bytes(p.anchor()));
  if (b.conv) return refused("not a matrix product");
  PERI_ASSIGN(const cuda::MatmulDims d, cuda::matmul_dims_of(dims_of(*b.a), dims_of(*b.b)));
  PERI_ASSIGN(const ByteTiles t, cuda::read_byte_tiles(p, d.n));
  if (d.batches != 1 || d.w.size() != 2) return refused("weights in batches");
  if (d.k % kHalf != 0) return refused("takes depths of multiples of %d", static_cast<int>(kHalf));
  if (b.scaled && d.k > cuda::kMaxByteProducts) return refused("sums of more products");
  cuda::ReadTiles r;
  cuda::TiledProduct& out = r.product;
  Signature& s = r.signature;
  out.m = d.m;
  out.n = d.n;
  out.k = d.k / 2;
  out.type = b.a->type.dtype;
  out.a_wide = out.b_wide = true;
  out.a_halves = d.k % (2 * kHalf) != 0;
  out.c_wide = d.n % 8 == 0;
  out.usual_m = {16, 128, 1024, 16384};
  out.chain_bytes = cuda::chain_bytes(p);
  PERI_ASSIGN(const std::string a, s.value(p, *b.a));
  out.packed = {{t.weights, [k = d.k, n = d.n, turned = t.turned](const Tensor& w) {
                   return cuda::packed_columns(w, k, n, turned);
                 }}};
  const std::string weights = s.packed(0);
  PERI_ASSIGN(const std::string end,
              cuda::byte_end_text(
                  p, t, d.n, "n", [k = d.k, n = d.n, t](const Tensor& w) { return cuda::sums_of_columns(w, k, n, t); },
                  &s, &out));
  const int64_t depth = (d.k + 15) / 16 * 8;  // of a column, in pairs
  out.functions = format("#define PERI_OUTPUTS PERI_N\n#define PERI_DEPTH %lld\n", static_cast<long long>(depth)) +
                  cuda::byte_rows_text(a) + cuda::conv_weights_text(weights) + end;
  return r;
}

}  // namespace

extern const Entry cuda_gemm_bytes_mma_entry;
const Entry cuda_gemm_bytes_mma_entry{{
    .name = "cuda_gemm_bytes_mma",
    .version = 1,
    .provider = "peri",
    .executor = "cuda",
    .takes = "products of bytes by weights on a GPU's tensor cores with their epilogue, exact",
    .offer = cuda::tiled_offer<read>,
    .instantiate = cuda::tiled_instance<read>,
    .needs = needs_from<cuda::tiled_instance<read>>,
    .samples =
        {"graph { input x: u8[2,17,48]; const w: i8[48,40] = seeded(40, 1); input z: u8[]; y = matmul_integer(x, w, "
         "z); output y }",
         "graph { input x: i8[19,88]; input f: f32[]; const w: u8[88,33] = seeded(40, 1); const z: i8[] = [5]; const "
         "v: u8[] = [128]; const b: f32[33] = seeded(1, 2); y = matmul_integer(x, w, z, v); c = cast(y) {to=1}; d = "
         "mul(c, f); e = add(d, b); g = gelu(e); output g }",
         // Weights around no half of their range: sums of rows, in a strip of columns and at the last one too.
         "graph { input x: u8[2,21,72]; const w: u8[72,40] = seeded(60, 1); const z: u8[] = [9]; const v: u8[] = "
         "[127]; y = "
         "matmul_integer(x, w, z, v); output y }",
         "graph { input x: i8[70,160]; const w: i8[160,19] = seeded(40, 1); const z: i8[] = [-9]; const v: i8[19] = "
         "seeded(20, 3); y = matmul_integer(x, w, z, v); output y }",
         "graph { input x: u8[5,64]; input r: i8[5,24]; const s: f32[] = [0.02]; const z: u8[] = [7]; const w: "
         "i8[64,24] = seeded(40, 1); const t: f32[24] = seeded(0.004, 3); const v: i8[] = [0]; const q: f32[] = [0.5]; "
         "const o: i8[] = [-3]; y = qlinear_matmul(x, s, z, w, t, v, q, o); f = from_bytes(y, q, o); g = from_bytes(r, "
         "s, o); a = add(f, g); u = to_bytes(a, q, o); output u }",
         "graph { input x: u8[9,32]; const s: f32[] = [0.02]; const z: u8[] = [7]; const w: i8[32,24] = seeded(40, 1); "
         "const "
         "t: f32[] = [0.004]; const v: i8[] = [0]; const q: f32[] = [0.05]; const o: u8[] = [99]; const l: i8[256] = "
         "seeded(90, 2); y = qlinear_matmul(x, s, z, w, t, v, q, o); u = byte_table(y, l); output u }",
         // A table behind the chain.
         "graph { input x: u8[9,32]; const s: f32[] = [0.02]; const z: u8[] = [7]; const w: i8[32,24] = seeded(40, 1); "
         "const t: f32[] = [0.004]; const v: i8[] = [0]; const q: f32[] = [0.05]; const o: u8[] = [99]; const b: "
         "f32[24] = seeded(2, 3); const l: u8[256] = seeded(90, 2); y = qlinear_matmul(x, s, z, w, t, v, q, o); f = "
         "from_bytes(y, q, o); a = add(f, b); u = to_bytes(a, q, o); r = byte_table(u, l); output r }"},
    .tunables = cuda::tile_tunables(),
}};

}  // namespace peri::kernels
