// Kernel matmul_typed: matrix products of float64 and of integers of 32 and 64 bits, for which there is no tiled
// product; batches that are equal on both sides, broadcast, or on the left alone.
#include <algorithm>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/cpu/typed/products.hpp"

namespace peri::kernels {
namespace {
// Measured: benchmarks/results/2026-11-22_constants_more.md.
constexpr int64_t kRows = 32, kColumns = 64;  // of a task: a line of y, and rows that share what they read of b

struct Shape {
  DType type = DType::kInvalid;
  int64_t m = 0, n = 0, k = 0;
  std::vector<std::pair<int64_t, int64_t>> images;  // of each product, which matrix of a and which of b
  int64_t row_blocks() const { return (m + kRows - 1) / kRows; }
  int64_t column_blocks() const { return (n + kColumns - 1) / kColumns; }
};

// Products in the order of the result, whose batch dimensions both sides are broadcast to.
Result<std::vector<std::pair<int64_t, int64_t>>> images_of(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                                                           const std::vector<int64_t>& y) {
  std::vector<std::pair<int64_t, int64_t>> out = {{0, 0}};
  for (size_t d = 0; d + 2 < y.size(); ++d) {
    const auto extent = [&](const std::vector<int64_t>& side) {
      const size_t missing = y.size() - side.size();
      return d < missing ? 1 : side[d - missing];
    };
    const int64_t of_a = extent(a), of_b = extent(b);
    if ((of_a != 1 && of_a != y[d]) || (of_b != 1 && of_b != y[d])) return refused("batches that do not broadcast");
    std::vector<std::pair<int64_t, int64_t>> next;
    for (const auto& [left, right] : out)
      for (int64_t k = 0; k < y[d]; ++k)
        next.emplace_back(left * of_a + (of_a == 1 ? 0 : k), right * of_b + (of_b == 1 ? 0 : k));
    out = std::move(next);
  }
  if (out.empty()) return refused("an empty product");
  return out;
}

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "matmul") return refused("not a matmul");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  Shape s;
  s.type = n.in(0)->type.dtype;
  if (s.type != DType::kF64 && s.type != DType::kI64 && s.type != DType::kI32 && s.type != DType::kU64 &&
      s.type != DType::kU32)
    return refused("takes f64 and integers of 32 and 64 bits only");
  const std::vector<int64_t> a = dims_of(*n.in(0)), b = dims_of(*n.in(1));
  if (a.size() < 2 || b.size() < 2) return refused("a vector operand");
  s.m = a[a.size() - 2];
  s.k = a.back();
  s.n = b.back();
  if (s.m * s.n == 0) return refused("an empty product");
  PERI_ASSIGN(s.images, images_of(a, b, dims_of(*n.out())));
  return s;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  const ir::Node& n = p.anchor();
  const Source a = Source::of(p, n.in(0), c.constants), b = Source::of(p, n.in(1), c.constants);
  if (!a.known() || !b.known()) return refused("reads a value made inside the region");
  const cpu::typed::Products& all =
      isa == cpu::Isa::kAvx512 ? cpu::typed::avx512::kProducts : cpu::typed::avx2::kProducts;
  const int64_t size = dtype_size(s.type);
  const auto run = s.type == DType::kF64 ? all.f64 : size == 8 ? all.i64 : all.i32;
  constexpr int64_t kMaxPacked = 8192;  // rows of b: a part of L2
  const size_t scratch = s.k <= kMaxPacked ? static_cast<size_t>(s.k * cpu::typed::kProductColumnBytes) : 0;
  return TaskInstance::make(
      std::ssize(s.images) * s.row_blocks() * s.column_blocks(), scratch, [=](int64_t task, const Args& args) {
        const int64_t column = task % s.column_blocks() * kColumns, rest = task / s.column_blocks(),
                      row = rest % s.row_blocks() * kRows, image = rest / s.row_blocks();
        const auto [left, from_right] = s.images[static_cast<size_t>(image)];
        const auto* from = static_cast<const std::byte*>(a.data(args));
        const auto* right = static_cast<const std::byte*>(b.data(args));
        run({from + (left * s.m + row) * s.k * size, right + (from_right * s.k * s.n + column) * size,
             static_cast<std::byte*>(args.out[0]) + ((image * s.m + row) * s.n + column) * size,
             std::min(kRows, s.m - row), std::min(kColumns, s.n - column), s.k, s.k, s.n, s.n,
             scratch == 0 ? nullptr : args.scratch});
      });
}
}  // namespace

extern const Entry matmul_typed_entry;
const Entry matmul_typed_entry{{
    .name = "matmul_typed",
    .version = 2,
    .provider = "peri",
    .takes = "matrix products of f64 and of integers of 32 and 64 bits",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input a: f64[37,19]; input b: f64[19,70]; y = matmul(a, b); output y }",
                "graph { input a: i64[3,5,33]; input b: i64[3,33,21]; y = matmul(a, b); output y }",
                "graph { input a: i32[2,7,9]; input b: i32[9,130]; y = matmul(a, b); output y }",
                "graph { input a: f64[2,1,7,9]; input b: f64[3,9,130]; y = matmul(a, b); output y }",
                "graph { input a: f64[40,9]; input b: f64[5,9,70]; y = matmul(a, b); output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
