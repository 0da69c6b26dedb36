// From a verified program and a space to tiles, slots and steps.
#include "kernels/cpu/block/plan.hpp"

#include <algorithm>
#include <numeric>

#include "kernels/cpu/block/lower.hpp"
#include "kernels/cpu/task_elements.hpp"

namespace peri::kernels::cpu::block {
namespace {

// Measured: benchmarks/results/2026-11-22_constants.md; kLongRow: 2026-11-24_constants_choices.md.
constexpr int64_t kTile = 1024;        // elements: 4 KiB of f32, so that a chain's registers stay in L1
constexpr int64_t kStreamTile = 8192;  // where nothing is kept in L1 from step to step
constexpr int64_t kLine = 16;          // elements of a cache line
constexpr int64_t kMaxTasks = 512;
constexpr int64_t kLongRow = 256;                   // elements: tiles are parts of one row
constexpr int64_t kMaxElements = int64_t{1} << 48;  // offsets in bytes stay within int64

int64_t round_up(int64_t v, int64_t to) { return (v + to - 1) / to * to; }

Status check_space(const Code& p, const Space& s) {
  if (s.strides.size() != p.inputs.size())
    return invalid("block plan: strides for %zu inputs, the program has %zu", s.strides.size(), p.inputs.size());
  if (s.reduced < 0 || static_cast<size_t>(s.reduced) > s.dims.size() || s.dims.size() > 64)
    return invalid("block plan: %d of %zu dims reduced", s.reduced, s.dims.size());
  int64_t count = 1;
  for (int64_t d : s.dims) {
    if (d < 0 || __builtin_mul_overflow(count, std::max<int64_t>(d, 1), &count) || count > kMaxElements)
      return invalid("block plan: the space is too large");
  }
  for (const auto& strides : s.strides) {
    if (strides.size() != s.dims.size()) return invalid("block plan: an input has %zu strides", strides.size());
    int64_t reach = 0;
    for (size_t d = 0; d < strides.size(); ++d) {
      int64_t step = 0;
      if (strides[d] < 0 || __builtin_mul_overflow(strides[d], std::max<int64_t>(s.dims[d] - 1, 0), &step) ||
          __builtin_add_overflow(reach, step, &reach) || reach > kMaxElements)
        return invalid("block plan: strides reach too far");
    }
  }
  const bool reduces =
      std::any_of(p.code.begin(), p.code.end(), [](const Instruction& i) { return is_reduction(i.op); });
  if (s.reduced > 0 && !reduces) return invalid("block plan: %d dims reduced without a reduction", s.reduced);
  return Ok{};
}

// Merges neighbouring dims that every input walks as one; never across the border of the reduced dims.
void collapse(const Space& s, Plan* plan) {
  std::vector<int64_t> dims;
  std::vector<std::vector<int64_t>> strides(s.strides.size());
  const size_t border = s.dims.size() - static_cast<size_t>(s.reduced);
  bool fresh = true;
  for (size_t d = 0; d < s.dims.size(); ++d) {
    if (d == border) fresh = true;
    if (s.dims[d] == 1) continue;
    bool merges = !fresh;
    for (size_t k = 0; merges && k < strides.size(); ++k) merges = strides[k].back() == s.strides[k][d] * s.dims[d];
    if (merges) {
      dims.back() *= s.dims[d];
      for (size_t k = 0; k < strides.size(); ++k) strides[k].back() = s.strides[k][d];
    } else {
      dims.push_back(s.dims[d]);
      for (size_t k = 0; k < strides.size(); ++k) strides[k].push_back(s.strides[k][d]);
    }
    fresh = false;
  }
  if (dims.empty()) {
    dims.push_back(1);
    for (auto& v : strides) v.push_back(1);
  }
  plan->dims = std::move(dims);
  plan->strides = std::move(strides);
}

// Elements of a tile. A single chain from memory to memory keeps nothing in L1: fewer, longer tiles have less overhead.
// A repeated row is kept there, and short (block_bench, bias C=64, Zen 5: 0.93 of copy with 1024, 0.83 with 4096).
int64_t tile_elements(const Code& p, const Plan& plan) {
  const auto f32 = [](DType t) { return t == DType::kF32; };
  bool streams =
      std::all_of(p.inputs.begin(), p.inputs.end(), f32) && std::all_of(p.outputs.begin(), p.outputs.end(), f32);
  // One element for each long row is read from where it lies.
  const auto of_rows = [&](size_t k) {
    return plan.reductions == 0 && plan.dims.back() >= kLongRow && plan.strides[k].back() == 0;
  };
  for (size_t k = 0; k < plan.strides.size(); ++k)
    streams = streams && (is_dense(plan, k) || is_constant(plan, k) || of_rows(k));
  int wide = 0;
  for (const Instruction& i : p.code) {
    wide += i.dst >= 0 && i.op != Op::kLoad && i.op != Op::kConst;
    streams = streams && i.type == Type::kF32 && i.op != Op::kSelect && i.op != Op::kCast &&
              !(is_reduction(i.op) && wide > 0);
  }
  if (streams && wide <= 12) return kStreamTile;
  return wide > 12 ? kTile / 2 : kTile;
}

// Tiles: chunks of one row where rows are long, else whole rows (whole reductions, if those are short).
void choose_tiles(const Code& p, Plan* plan, bool* by_row) {
  const int64_t inner = plan->dims.back();
  const bool reduces = plan->reductions > 0;
  const int64_t tile = tile_elements(p, *plan);
  *by_row = inner >= kLongRow && (!reduces || plan->reduce_count > tile || plan->reduce_count == inner);
  bool dense = true;
  for (size_t k = 0; k < plan->strides.size(); ++k) dense = dense && is_dense(*plan, k);
  if (reduces && dense && 2 * plan->reduce_count <= tile) *by_row = false;
  // So many rows end on a cache line.
  int64_t rows = std::max<int64_t>(1, tile / inner);
  const int64_t step = kLine / std::gcd(kLine, inner);
  if (step * inner <= 2 * tile) rows = std::max(step, rows - rows % step);
  if (*by_row) {
    const int64_t chunks = (inner + tile - 1) / tile;
    plan->block = inner;
    plan->tile = std::min(inner, round_up((inner + chunks - 1) / chunks, 64));
  } else if (!reduces) {
    plan->block = plan->count;
    plan->tile = std::min(plan->count, rows * inner);
  } else if (plan->reduce_count <= tile) {
    plan->block = plan->count;
    plan->tile = tile / plan->reduce_count * plan->reduce_count;
  } else {
    plan->block = plan->reduce_count;
    plan->tile = rows * inner;
  }
}

// Cuts the tiles into tasks of some tens of thousands of elements; few long reductions are cut inside.
void choose_tasks(const Code& p, Plan* plan) {
  int64_t weight = 1;
  for (const Instruction& i : p.code) weight += i.op >= Op::kExp && i.op <= Op::kMish ? 2 : 0;
  const int64_t least = std::max<int64_t>(4096, kTaskElements / std::min<int64_t>(weight, 4));
  const int64_t tiles_per_block = (plan->block + plan->tile - 1) / plan->tile;
  plan->tiles = plan->count / plan->block * tiles_per_block;
  plan->unit = 1;
  if (plan->reductions > 0 && plan->reduce_count > plan->tile)
    plan->unit = plan->reduce_count / plan->block * tiles_per_block;
  const int64_t units = plan->tiles / plan->unit;
  const int64_t wanted = std::clamp<int64_t>(plan->count / least, 1, kMaxTasks);
  plan->tasks = std::min(units, wanted);
  if (plan->unit > 1 && units < 16 && wanted > units) {
    plan->parts = std::min(plan->unit, (wanted + units - 1) / units);
    plan->tasks = units * plan->parts;
  }
}

}  // namespace

Result<Plan> make_plan(const Code& program, const Space& space, Isa isa) {
  PERI_TRY(check_space(program, space));
  Plan plan;
  plan.isa = isa;
  for (DType t : program.inputs) plan.input_bytes.push_back(dtype_size(t));
  for (DType t : program.outputs) plan.output_bytes.push_back(dtype_size(t));
  plan.count = 1;
  for (int64_t d : space.dims) plan.count *= d;
  for (size_t d = space.dims.size() - static_cast<size_t>(space.reduced); d < space.dims.size(); ++d)
    plan.reduce_count *= space.dims[d];
  for (const Instruction& i : program.code) plan.reductions += is_reduction(i.op);
  if (plan.count == 0) {
    for (const Instruction& i : program.code) {
      if (is_reduction(i.op)) return unsupported("block plan: a reduction over nothing");
    }
    plan.tasks = 0;
    return plan;
  }
  collapse(space, &plan);
  bool by_row = false;
  choose_tiles(program, &plan, &by_row);
  choose_tasks(program, &plan);
  lower(program, by_row, &plan);
  return plan;
}

int64_t task_count(const Plan& plan) { return plan.tasks; }
int64_t scratch_bytes(const Plan& plan) { return plan.scratch; }
int64_t workspace_bytes(const Plan& plan) {
  return plan.parts > 1 ? plan.tasks * plan.reductions * static_cast<int64_t>(sizeof(Partial)) : 0;
}

}  // namespace peri::kernels::cpu::block
