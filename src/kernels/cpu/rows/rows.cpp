// Plans and tasks of the row kernels.
#include "kernels/cpu/rows/rows.hpp"

#include <algorithm>

#include "kernels/cpu/rows/loops.hpp"

namespace peri::kernels::cpu::rows {
namespace {

// Measured: benchmarks/results/2026-11-22_constants.md.
constexpr int64_t kTaskElements = 16384;
constexpr int64_t kMaxTasks = 512;

const Loops& loops(Isa isa) { return isa == Isa::kAvx512 ? avx512::kLoops : avx2::kLoops; }

// The product of dims that must be >= 0, or an error.
Result<int64_t> product(std::initializer_list<int64_t> dims) {
  int64_t count = 1;
  for (int64_t d : dims) {
    if (d < 0 || __builtin_mul_overflow(count, std::max<int64_t>(d, 1), &count) || count > (int64_t{1} << 48))
      return invalid("row kernel: dims are negative or too large");
  }
  return count;
}

// Tasks for `units` pieces of work that touch `elements` in all.
int64_t tasks_for(int64_t units, int64_t elements) {
  return std::min(units, std::clamp<int64_t>(elements / kTaskElements, 1, kMaxTasks));
}

struct Range {
  int64_t begin, end;
};
Range range_of(int64_t units, int64_t tasks, int64_t task) {
  return {task * units / tasks, (task + 1) * units / tasks};
}

}  // namespace

Result<SoftmaxPlan> make_plan(const SoftmaxShape& s, Isa isa, int64_t rows) {
  PERI_ASSIGN(const int64_t count, product({s.outer, s.axis, s.inner}));
  SoftmaxPlan plan{s, isa, s.outer, 0, s.inner};
  if (s.masked) {
    PERI_ASSIGN(const int64_t outer, product({s.mask_dims[0], s.mask_dims[1], s.mask_dims[2]}));
    if (s.inner != 1 || (s.outer > 0 && outer != s.outer) || s.mask_axis_stride < 0 || s.mask_axis_stride > 1)
      return invalid("softmax: the mask's dims do not cover %lld rows", static_cast<long long>(s.outer));
    for (int64_t stride : s.mask_strides) {
      if (stride < 0 || stride > (int64_t{1} << 40)) return invalid("softmax: a mask stride is out of range");
    }
  }
  if (s.outer == 0 || s.axis == 0 || s.inner == 0) return plan;
  if (s.inner > 1) {
    plan.column_block = std::min<int64_t>(s.inner, 64);
    plan.units = s.outer * ((s.inner + plan.column_block - 1) / plan.column_block);
  }
  plan.tasks = rows > 0 ? (plan.units + rows - 1) / rows : tasks_for(plan.units, count);
  return plan;
}
int64_t task_count(const SoftmaxPlan& plan) { return plan.tasks; }

void run_task(const SoftmaxPlan& plan, const SoftmaxArgs& args, int64_t task) {
  const SoftmaxShape& s = plan.shape;
  const Loops& l = loops(plan.isa);
  const auto range = range_of(plan.units, plan.tasks, task);
  for (int64_t u = range.begin; u < range.end; ++u) {
    if (s.inner > 1) {
      const int64_t blocks = plan.units / s.outer, c = u % blocks * plan.column_block;
      const int64_t at = u / blocks * s.axis * s.inner + c;
      l.softmax_columns(args.x + at, s.scale, s.log, args.y + at, s.axis, s.inner,
                        std::min(plan.column_block, s.inner - c));
      continue;
    }
    const float* mask = nullptr;
    if (s.masked) {
      const int64_t c2 = u % s.mask_dims[2], c1 = u / s.mask_dims[2] % s.mask_dims[1];
      const int64_t c0 = u / s.mask_dims[2] / s.mask_dims[1];
      mask = args.mask + c0 * s.mask_strides[0] + c1 * s.mask_strides[1] + c2 * s.mask_strides[2];
    }
    l.softmax(args.x + u * s.axis, mask, s.mask_axis_stride, s.scale, s.log, args.y + u * s.axis, s.axis);
  }
}

Result<NormPlan> make_plan(const NormShape& s, Isa isa, int64_t rows) {
  PERI_ASSIGN(const int64_t count, product({s.rows, s.n}));
  NormPlan plan{s, isa, 0};
  if (s.n > 0 && s.rows > 0) plan.tasks = rows > 0 ? (s.rows + rows - 1) / rows : tasks_for(s.rows, count);
  return plan;
}
int64_t task_count(const NormPlan& plan) { return plan.tasks; }

void run_task(const NormPlan& plan, const NormArgs& args, int64_t task) {
  const NormShape& s = plan.shape;
  const auto run = s.norm == Norm::kLayer ? loops(plan.isa).layer_norm : loops(plan.isa).rms_norm;
  const auto range = range_of(s.rows, plan.tasks, task);
  const auto at = [&](auto* p, int64_t row) { return p == nullptr ? nullptr : p + row * s.n; };
  for (int64_t r = range.begin; r < range.end; ++r) {
    float stats[2];
    run({at(args.x, r), at(args.residual, r), args.residual_bias, args.scale, args.bias, at(args.sum_out, r),
         at(args.y, r), s.n, s.epsilon},
        stats);
    if (args.mean_out != nullptr) args.mean_out[r] = stats[0];
    if (args.inverse_out != nullptr) args.inverse_out[r] = stats[1];
  }
}

Result<GroupNormPlan> make_plan(const GroupNormShape& s, Isa isa) {
  PERI_ASSIGN(const int64_t count, product({s.batch, s.channels, s.spatial}));
  if (s.groups < 1 || s.channels % s.groups != 0)
    return invalid("group norm: %lld channels in %lld groups", static_cast<long long>(s.channels),
                   static_cast<long long>(s.groups));
  GroupNormPlan plan{s, isa, 0};
  if (s.batch > 0 && s.channels > 0 && s.spatial > 0) plan.tasks = tasks_for(s.batch * s.groups, count);
  return plan;
}
int64_t task_count(const GroupNormPlan& plan) { return plan.tasks; }

void run_task(const GroupNormPlan& plan, const GroupNormArgs& args, int64_t task) {
  const GroupNormShape& s = plan.shape;
  const Loops& l = loops(plan.isa);
  const int64_t channels = s.channels / s.groups;
  const auto range = range_of(s.batch * s.groups, plan.tasks, task);
  for (int64_t g = range.begin; g < range.end; ++g) {
    const float* x = args.x + g * channels * s.spatial;
    float* y = args.y + g * channels * s.spatial;
    float stats[2];
    l.moments(x, channels * s.spatial, s.epsilon, stats);
    for (int64_t k = 0; k < channels; ++k) {
      const int64_t channel = g % s.groups * channels + k;
      const float a = stats[1] * (args.scale != nullptr ? args.scale[channel] : 1.0f);
      const float b = args.bias != nullptr ? args.bias[channel] : 0.0f;
      l.affine(x + k * s.spatial, stats[0], a, b, y + k * s.spatial, s.spatial);
    }
  }
}

Result<JoinPlan> make_plan(const JoinShape& s, Isa isa) {
  PERI_ASSIGN(const int64_t count, product({s.outer, s.axis, s.inner}));
  if (s.weighted && (s.join == Join::kMax || s.join == Join::kMin))
    return invalid("axis join: weights need a sum or mean");
  JoinPlan plan{s, isa, std::min<int64_t>(std::max<int64_t>(s.inner, 1), 64), 0, 0};
  if (s.outer == 0 || s.inner == 0) return plan;
  if (s.axis == 0) return unsupported("axis join: over nothing");
  plan.units = s.outer * ((s.inner + plan.column_block - 1) / plan.column_block);
  plan.tasks = tasks_for(plan.units, count);
  return plan;
}
int64_t task_count(const JoinPlan& plan) { return plan.tasks; }

void run_task(const JoinPlan& plan, const JoinArgs& args, int64_t task) {
  const JoinShape& s = plan.shape;
  const int64_t blocks = plan.units / s.outer;
  const int kind = s.join == Join::kMax ? 1 : s.join == Join::kMin ? 2 : 0;
  const auto range = range_of(plan.units, plan.tasks, task);
  for (int64_t u = range.begin; u < range.end; ++u) {
    const int64_t o = u / blocks, c = u % blocks * plan.column_block;
    const float* weights = s.weighted ? args.weights + o * s.axis : nullptr;
    double divisor = 1;
    if (s.join == Join::kMean) {
      divisor = static_cast<double>(s.axis);
      if (s.weighted) {
        divisor = 0;
        for (int64_t k = 0; k < s.axis; ++k) divisor += static_cast<double>(weights[k]);
        divisor = std::max(divisor, 1e-9);
      }
    }
    loops(plan.isa).join_axis(kind, args.x + o * s.axis * s.inner + c, weights, args.y + o * s.inner + c, s.axis,
                              s.inner, std::min(plan.column_block, s.inner - c), static_cast<float>(1 / divisor));
  }
}

}  // namespace peri::kernels::cpu::rows
