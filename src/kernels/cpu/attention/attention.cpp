// Plans and tasks of fused attention.
#include "kernels/cpu/attention/attention.hpp"

#include <algorithm>

#include "kernels/cpu/attention/loops.hpp"

namespace peri::kernels::cpu::attention {
namespace {

constexpr int64_t kMaxReach = int64_t{1} << 40;  // elements: sums and products of sizes stay within int64

const Loops& loops(Isa isa) { return isa == Isa::kAvx512 ? avx512::kLoops : avx2::kLoops; }

bool fits(const Strides& s, int64_t batch, int64_t heads, int64_t rows, int64_t steps) {
  const int64_t dims[] = {batch, heads, rows, steps}, strides[] = {s.batch, s.head, s.row, s.step};
  int64_t reach = 0;
  for (int d = 0; d < 4; ++d) {
    int64_t part = 0;
    if (strides[d] < 0 || __builtin_mul_overflow(strides[d], dims[d] - 1, &part) || part > kMaxReach) return false;
    reach += part;
  }
  return reach <= kMaxReach;
}

int64_t tile_size(const Plan& plan) { return loops(plan.isa).tile_queries; }

}  // namespace

Strides packed_heads(int64_t positions, int64_t heads, int64_t depth) {
  return {positions * heads * depth, depth, heads * depth, 1};
}
Strides split_heads(int64_t positions, int64_t heads, int64_t depth) {
  return {positions * heads * depth, positions * depth, depth, 1};
}

Result<Plan> make_plan(const Shape& s, Isa isa, int64_t tiles_each) {
  Plan plan{s, isa, 0, tiles_each, 0, 0, 0};
  for (int64_t d : {s.batch, s.heads, s.kv_heads, s.queries, s.keys, s.depth, s.value_depth}) {
    if (d < 0 || d > (int64_t{1} << 31)) return invalid("attention: a dim is out of range");
  }
  if (s.batch == 0 || s.heads == 0 || s.queries == 0 || s.value_depth == 0) return plan;
  if (s.keys == 0 || s.depth == 0) return unsupported("attention: no keys or no depth");
  if (s.kv_heads == 0 || s.heads % s.kv_heads != 0)
    return invalid("attention: %lld heads on %lld", static_cast<long long>(s.heads),
                   static_cast<long long>(s.kv_heads));
  if (s.v.step != 1 || s.o.step != 1) return unsupported("attention: V and O must be dense along the depth");
  if (!fits(s.q, s.batch, s.heads, s.queries, s.depth) || !fits(s.k, s.batch, s.kv_heads, s.keys, s.depth) ||
      !fits(s.v, s.batch, s.kv_heads, s.keys, s.value_depth) ||
      !fits(s.o, s.batch, s.heads, s.queries, s.value_depth) ||
      (s.mask != Mask::kNone && !fits(s.mask_strides, s.batch, s.heads, s.queries, s.keys)))
    return invalid("attention: strides are negative or reach too far");
  if (s.causal && (s.causal_offset < 0 || s.causal_offset > kMaxReach))
    return invalid("attention: a causal offset below 0");
  const int64_t tile = loops(isa).tile_queries;
  if ((s.keys + s.depth + 1) > kMaxReach / (tile * 4)) return invalid("attention: too many keys");
  plan.tiles = (s.queries + tile - 1) / tile;
  plan.blocks = (plan.tiles + tiles_each - 1) / tiles_each;
  int64_t tasks = 0;
  if (__builtin_mul_overflow(s.batch, s.heads, &tasks) || __builtin_mul_overflow(tasks, plan.blocks, &tasks) ||
      tasks > kMaxReach)
    return invalid("attention: too large");
  plan.tasks = tasks;
  plan.scratch = (s.keys + s.depth + 1) * tile * static_cast<int64_t>(sizeof(float));
  return plan;
}

int64_t task_count(const Plan& plan) { return plan.tasks; }
int64_t scratch_bytes(const Plan& plan) { return plan.scratch; }

namespace {
void run_tile(const Plan& plan, const Args& args, int64_t batch, int64_t head, int64_t tile, void* scratch) {
  const Shape& s = plan.shape;
  const int64_t first = tile * tile_size(plan), kv = head / (s.heads / s.kv_heads);
  Tile t{};
  t.zero_hidden = plan.shape.zero_hidden;
  t.q = args.q + batch * s.q.batch + head * s.q.head + first * s.q.row;
  t.k = args.k + batch * s.k.batch + kv * s.k.head;
  t.v = args.v + batch * s.v.batch + kv * s.v.head;
  t.o = args.o + batch * s.o.batch + head * s.o.head + first * s.o.row;
  t.q_row = s.q.row;
  t.q_step = s.q.step;
  t.k_row = s.k.row;
  t.k_step = s.k.step;
  t.v_row = s.v.row;
  t.o_row = s.o.row;
  t.queries = std::min(tile_size(plan), s.queries - first);
  t.keys = s.keys;
  t.causal_from = INT64_MAX / 2;
  if (s.causal) {
    t.causal_from = first + s.causal_offset;
    t.keys = std::min(s.keys, t.causal_from + t.queries);
  }
  t.depth = s.depth;
  t.value_depth = s.value_depth;
  t.scale = s.scale;
  t.cap = s.cap;
  const Strides& m = s.mask_strides;
  const int64_t at = batch * m.batch + head * m.head + first * m.row;
  if (s.mask == Mask::kAdd) t.add_mask = static_cast<const float*>(args.mask) + at;
  if (s.mask == Mask::kBool) t.bool_mask = static_cast<const uint8_t*>(args.mask) + at;
  t.mask_row = m.row;
  t.mask_step = m.step;
  t.scratch = static_cast<float*>(scratch);
  loops(plan.isa).run(t);
}
}  // namespace

void run_task(const Plan& plan, const Args& args, int64_t task, void* scratch) {
  const int64_t block = task % plan.blocks, head = task / plan.blocks;
  const int64_t first = block * plan.tiles_each, end = std::min(plan.tiles, first + plan.tiles_each);
  for (int64_t tile = first; tile < end; ++tile)
    run_tile(plan, args, head / plan.shape.heads, head % plan.shape.heads, tile, scratch);
}

}  // namespace peri::kernels::cpu::attention
