// Kernel hard_max_f32: one at the first of the largest elements along an axis, zeros elsewhere.
#include "kernels/cpu/rows/extreme.hpp"

#include <algorithm>

namespace peri::kernels {
namespace {
namespace extreme = cpu::extreme;

Result<extreme::Lines> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "hardmax") return refused("not a hardmax");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only");
  return extreme::read_lines(n, -1);
}

void mark(const extreme::Lines& s, int64_t task, const float* x, float* y) {
  if (s.inner == 1) {
    const int64_t begin = task * s.rows_of_task(), end = std::min(s.outer, begin + s.rows_of_task());
    std::fill(y + begin * s.axis, y + end * s.axis, 0.0F);
    for (int64_t r = begin; r < end; ++r) y[r * s.axis + extreme::scan_row<true, false>(x + r * s.axis, s.axis)] = 1;
    return;
  }
  const int64_t c = task % s.blocks() * extreme::kColumns, at = task / s.blocks() * s.axis * s.inner + c,
                columns = std::min(extreme::kColumns, s.inner - c);
  int64_t places[extreme::kColumns];
  extreme::scan_columns<true, false>(x + at, s.axis, s.inner, columns, places);
  for (int64_t k = 0; k < s.axis; ++k) std::fill_n(y + at + k * s.inner, columns, 0.0F);
  for (int64_t j = 0; j < columns; ++j) y[at + places[j] * s.inner + j] = 1;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const extreme::Lines s, read(p));
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  return TaskInstance::make(s.tasks(), 0, [s, x](int64_t task, const Args& args) {
    mark(s, task, x.f32(args), static_cast<float*>(args.out[0]));
  });
}
}  // namespace

extern const Entry hard_max_f32_entry;
const Entry hard_max_f32_entry{{
    .name = "hard_max_f32",
    .version = 1,
    .provider = "peri",
    .takes = "hardmax of f32 along one axis",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f32[5,37]; y = hardmax(x); output y }",
                "graph { input x: f32[3,9,1100]; y = hardmax(x) {axis=1}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
