// The task grid of a product, and one task: blocks of k around a sweep over its rows and panels.
#include "kernels/cpu/gemm/gemm.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "base/result.hpp"
#include "kernels/cpu/gemm/pack.hpp"

namespace peri::kernels::cpu {
namespace {

// Measured: benchmarks/results/2026-11-22_constants.md.
constexpr int64_t kBlockRows = 128, kMaxBlockRows = 256;
constexpr int64_t kMaxDepth = 1536;

// Panels [first, end) of n-block `block`.
int64_t first_panel(const GemmPlan& plan, int64_t block) {
  return part_begin(plan.panels.panels, plan.n_blocks, block);
}

Epilogue epilogue_at(const Epilogue& e, int64_t outer, int64_t inner) {
  Epilogue at = e;
  for (int i = 0; i < at.count; ++i) {
    PostOp& op = at.ops[i];
    if (op.data != nullptr) op.data += outer * op.outer_stride + inner * op.inner_stride;
  }
  return at;
}

// Packs rows [k0, k0 + depth) of the sweep's panels to scratch and points the sweep there. `b`: of the product.
void pack_block(const GemmPlan& plan, const GemmArgs& args, const float* b, MadePanel block, float* scratch, Sweep& s) {
  const int64_t k0 = block.k0;
  const bool transposed = plan.shape.b_form == BForm::kTransposed;
  const int64_t width = s.panels.panel_columns;
  for (int64_t p = s.first_panel; p < s.end_panel; ++p) {
    if (plan.shape.b_form == BForm::kMade) {
      block.column = p * width;
      block.columns = s.panels.wanted(p);
      block.width = s.panels.width(p);
      (*args.make)(block, scratch + (p - s.first_panel) * width * s.k);
      continue;
    }
    const float* from = transposed ? b + p * width * args.ldb + k0 : b + k0 * args.ldb + p * width;
    pack_panel(from, args.ldb, transposed, s.k, s.panels.wanted(p), s.panels.width(p),
               scratch + (p - s.first_panel) * width * s.k);
  }
  s.b = scratch - s.first_panel * width * s.k;
  s.b_panel_stride = width * s.k;
}

}  // namespace

GemmPlan plan_gemm(const GemmShape& shape, Isa isa, Cut cut, int threads) {
  PERI_CHECK(shape.m >= 1 && shape.n >= 1 && shape.k >= 0 && shape.batch >= 0 && shape.batch_inner >= 1,
             "gemm: empty or negative shape");
  const TileTable& table = tile_table(isa);
  GemmPlan plan;
  plan.shape = shape;
  plan.isa = isa;
  plan.tile_rows = table.max_rows;
  plan.panels = split_columns(shape.n, table.lanes);
  const Grid grid = share_out({.rows = shape.m,
                               .block_rows = kBlockRows,
                               .depth = shape.k,
                               .products = std::max<int64_t>(1, shape.batch),
                               .begin_rows = shape.b_form == BForm::kPacked ? 1.7 : 6},
                              plan.panels, threads, cut);
  plan.m_blocks = grid.row_blocks;
  plan.n_blocks = grid.panel_blocks;
  const int64_t k_blocks = std::max<int64_t>(1, (shape.k + kMaxDepth - 1) / kMaxDepth);
  plan.k_block = std::max<int64_t>(1, (shape.k + k_blocks - 1) / k_blocks);
  plan.tasks = shape.batch * plan.m_blocks * plan.n_blocks;
  if (shape.b_form != BForm::kPacked) {
    const int64_t most = (plan.panels.panels + plan.n_blocks - 1) / plan.n_blocks;
    plan.scratch_floats = most * plan.panels.panel_columns * plan.k_block;
  }
  return plan;
}

std::string plan_text(const GemmPlan& p) {
  char text[256];
  const char* form[] = {"packed", "rows", "transposed", "made"};
  std::snprintf(
      text, sizeof text,
      "gemm %s m=%lld n=%lld k=%lld batch=%lld/%lld b=%s tile=%lldx%lld blocks m=%lld n=%lld k=%lld tasks=%lld",
      std::string(isa_name(p.isa)).c_str(), static_cast<long long>(p.shape.m), static_cast<long long>(p.shape.n),
      static_cast<long long>(p.shape.k), static_cast<long long>(p.shape.batch),
      static_cast<long long>(p.shape.batch_inner), form[static_cast<int>(p.shape.b_form)],
      static_cast<long long>(p.tile_rows), static_cast<long long>(p.panels.panel_columns),
      static_cast<long long>(p.m_blocks), static_cast<long long>(p.n_blocks), static_cast<long long>(p.k_block),
      static_cast<long long>(p.tasks));
  return text;
}

int64_t packed_b_floats(int64_t k, int64_t n, Isa isa) {
  return split_columns(n, tile_table(isa).lanes).packed_floats(k);
}

void pack_b(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t n, Isa isa, float* packed) {
  if (k == 0) return;  // `b` has no memory
  const PanelSplit panels = split_columns(n, tile_table(isa).lanes);
  for (int64_t p = 0; p < panels.panels; ++p) {
    const int64_t column = p * panels.panel_columns;
    pack_panel(transposed ? b + column * ldb : b + column, ldb, transposed, k, panels.wanted(p), panels.width(p),
               packed + column * k);
  }
}

void run_task(const GemmPlan& plan, const GemmArgs& args, int64_t task, float* scratch) {
  const GemmShape& shape = plan.shape;
  const int64_t n_block = task % plan.n_blocks, m_block = task / plan.n_blocks % plan.m_blocks;
  const int64_t product = task / plan.n_blocks / plan.m_blocks;
  const int64_t outer = product / shape.batch_inner, inner = product % shape.batch_inner;
  const int64_t row0 = part_begin(shape.m, plan.m_blocks, m_block);
  const int64_t rows = part_begin(shape.m, plan.m_blocks, m_block + 1) - row0;
  PERI_CHECK(rows <= kMaxBlockRows);
  const float* a = args.a + outer * args.a_outer + inner * args.a_inner + row0 * args.lda;
  const float* b = args.b + outer * args.b_outer + inner * args.b_inner;
  std::optional<Epilogue> moved;  // an epilogue is large beside a product of one row
  if (outer != 0 || inner != 0) moved = epilogue_at(args.epilogue, outer, inner);
  const float* starts[kMaxBlockRows];
  Sweep s;
  s.table = &tile_table(plan.isa);
  s.tiles = split_rows(rows, plan.tile_rows);
  s.rows = starts;
  s.panels = plan.panels;
  s.first_panel = first_panel(plan, n_block);
  s.end_panel = first_panel(plan, n_block + 1);
  s.c = args.c + outer * args.c_outer + inner * args.c_inner + row0 * args.ldc;
  s.ldc = args.ldc;
  s.epilogue = moved ? &*moved : &args.epilogue;
  s.row0 = row0;
  for (int64_t k0 = 0; k0 == 0 || k0 < shape.k; k0 += plan.k_block) {
    for (int64_t r = 0; r < rows; ++r) starts[r] = a + r * args.lda + k0;
    s.k = std::min(plan.k_block, shape.k - k0);
    s.accumulate = k0 != 0;
    s.last = k0 + s.k >= shape.k;
    if (shape.b_form == BForm::kPacked) {
      s.b_panel_stride = plan.panels.panel_columns * shape.k;
      // Block k0 of panel p begins k0 of its own rows in; the thin last panel is the only one of another width.
      s.b = b;
      s.b_row0 = k0;
    } else {
      pack_block(plan, args, b, {.outer = outer, .inner = inner, .k0 = k0, .depth = s.k}, scratch, s);
    }
    run_sweep(s);
  }
}

}  // namespace peri::kernels::cpu
