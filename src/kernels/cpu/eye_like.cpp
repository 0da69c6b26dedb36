// Kernel eye_like: ones on a diagonal, zeros elsewhere, for any byte-sized type.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
// Measured: benchmarks/results/2026-11-23_constants_rest.md.
constexpr int64_t kTaskBytes = 64 * 1024;

struct Shape {
  int64_t rows = 1, columns = 1, diagonal = 0, bytes = 4;
  uint64_t one = 1;
  int64_t rows_per_task() const { return std::max<int64_t>(1, kTaskBytes / (columns * bytes)); }
  int64_t tasks() const { return (rows + rows_per_task() - 1) / rows_per_task(); }
};

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "eye_like") return refused("not an eye_like");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  const DType type = n.out()->type.dtype;
  const std::vector<int64_t> d = dims_of(*n.out());
  Shape s;
  s.rows = d[0];
  s.columns = d[1];
  s.diagonal = n.i("k", 0);
  s.bytes = dtype_size(type);
  if (s.bytes == 0 || s.bytes > 8) return refused("elements of %s", dtype_name(type).data());
  if (s.rows * s.columns == 0) return refused("an empty result");
  if (type == DType::kF16) s.one = 0x3c00;
  if (type == DType::kBF16) s.one = 0x3f80;
  if (type == DType::kF32) s.one = 0x3f800000;
  if (type == DType::kF64) s.one = 0x3ff0000000000000;
  return s;
}

void run_task(const Shape& s, int64_t task, std::byte* y) {
  const int64_t begin = task * s.rows_per_task(), end = std::min(s.rows, begin + s.rows_per_task()),
                line = s.columns * s.bytes;
  std::memset(y + begin * line, 0, static_cast<size_t>((end - begin) * line));
  if (s.diagonal >= s.columns || s.diagonal <= -s.rows) return;
  for (int64_t r = begin; r < end; ++r)
    if (const int64_t at = r + s.diagonal; at >= 0 && at < s.columns)
      std::memcpy(y + r * line + at * s.bytes, &s.one, static_cast<size_t>(s.bytes));
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext&) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  return TaskInstance::make(
      s.tasks(), 0, [s](int64_t task, const Args& args) { run_task(s, task, static_cast<std::byte*>(args.out[0])); });
}
}  // namespace

extern const Entry eye_like_entry;
const Entry eye_like_entry{{
    .name = "eye_like",
    .version = 1,
    .provider = "peri",
    .takes = "eye_like of any type of whole bytes",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f32[300,90]; y = eye_like(x) {k=-7}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
