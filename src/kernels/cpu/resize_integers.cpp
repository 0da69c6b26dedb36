// Kernel resize_integers: linear, cubic and antialiased resize of integers of up to 32 bits along one or two axes, with
// the operations of the definition in their order: where a sum is cut off, the last bit of a double decides.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/task_elements.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/resize_match.hpp"

namespace peri::kernels {
namespace {
// As many taps for each place of the result: those that are none have a weight of 0.
struct Axis {
  int64_t in = 1, out = 1, count = 1;
  std::vector<int64_t> index = {0};
  std::vector<double> weight = {1};
};

// x is [outer, first.in, middle, second.in, inner].
struct Plan {
  DType type = DType::kInvalid;
  int64_t outer = 1, middle = 1, inner = 1;
  Axis first, second;
  bool rounds = false;
  int64_t rows() const { return outer * first.out * middle; }
  int64_t row() const { return second.out * inner; }
  int64_t rows_per_task() const {  // elements that are worth several of a copy
    return std::max<int64_t>(1,
                             cpu::kTaskElements / 4 / (row() * std::max<int64_t>(1, first.count * second.count / 4)));
  }
  int64_t tasks() const { return (rows() + rows_per_task() - 1) / rows_per_task(); }
};

Result<Axis> axis_of(const ops::Sampling& sampling, const ops::AxisGeometry& g) {
  const ops::AxisTaps taps = ops::axis_taps(sampling, g);
  if (std::any_of(taps.outside.begin(), taps.outside.end(), [](char c) { return c != 0; }))
    return refused("places outside");
  Axis out{g.in, g.out, 1, {}, {}};
  for (int64_t o = 0; o < g.out; ++o) out.count = std::max(out.count, std::ssize(taps.at(o)));
  constexpr int64_t kMaxTaps = 1 << 24;  // of a table
  if (out.count * out.out > kMaxTaps) return refused("more than %lld taps", static_cast<long long>(kMaxTaps));
  for (int64_t o = 0; o < g.out; ++o) {
    const auto at = taps.at(o);
    for (int64_t t = 0; t < out.count; ++t) {
      const bool is_one = t < std::ssize(at);
      out.index.push_back(is_one ? at[static_cast<size_t>(t)].index : 0);
      out.weight.push_back(is_one ? at[static_cast<size_t>(t)].weight : 0);
    }
  }
  return out;
}

Result<Plan> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "resize") return refused("not a resize");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  PERI_ASSIGN(const ops::Sampling sampling, ops::sampling_of(n));
  if (sampling.mode == "nearest") return refused("the nearest element");
  Plan plan;
  plan.type = n.in(0)->type.dtype;
  if (!is_integer(plan.type) || dtype_size(plan.type) < 1 || dtype_size(plan.type) > 4)
    return refused("takes integers of 8, 16 and 32 bits only");
  plan.rounds = sampling.antialias;
  const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.out());
  for (size_t k = 0; k < x.size(); ++k)
    if (x[k] == 0 || y[k] == 0 || x[k] > kMaxResizeExtent || y[k] > kMaxResizeExtent)
      return refused("an empty tensor, or an axis of more than %lld places", static_cast<long long>(kMaxResizeExtent));
  PERI_ASSIGN(const std::vector<ops::AxisGeometry> geometry, resize_geometry(n, x, y));
  std::vector<size_t> changed;
  for (size_t k = 0; k < geometry.size(); ++k)
    if (!geometry[k].whole) changed.push_back(k);
  if (changed.size() > 2) return refused("more than two axes");
  const size_t second = changed.empty() ? x.size() : changed.back(), first = changed.size() == 2 ? changed[0] : second;
  for (size_t k = 0; k < x.size(); ++k)
    if (k != first && k != second) (k < first ? plan.outer : k < second ? plan.middle : plan.inner) *= x[k];
  if (changed.empty()) std::swap(plan.outer, plan.inner);  // one row, which is copied
  if (changed.size() == 2) {
    PERI_ASSIGN(plan.first, axis_of(sampling, geometry[first]));
  }
  if (!changed.empty()) {
    PERI_ASSIGN(plan.second, axis_of(sampling, geometry[second]));
  }
  return plan;
}

// One row of the result; kFirst and kSecond: the taps of each axis, 0: any number.
template <class T, int kFirst, int kSecond>
void blend_row(const Plan& p, const T* x, int64_t line, const double* by, const int64_t* from, T* y) {
  const int64_t firsts = kFirst ? kFirst : p.first.count, seconds = kSecond ? kSecond : p.second.count;
  constexpr double kLow = static_cast<double>(std::numeric_limits<T>::lowest()),
                   kHigh = static_cast<double>(std::numeric_limits<T>::max());
  const int64_t* index = p.second.index.data();
  const double* weight = p.second.weight.data();
  for (int64_t o = 0; o < p.second.out; ++o, index += seconds, weight += seconds)
    for (int64_t i = 0; i < p.inner; ++i) {
      double sum = 0;
      for (int64_t a = 0; a < firsts; ++a) {
        const T* const row = x + from[a] * line + i;
        for (int64_t b = 0; b < seconds; ++b) sum += by[a] * weight[b] * static_cast<double>(row[index[b] * p.inner]);
      }
      if (p.rounds) sum = std::floor(sum + 0.5);
      y[o * p.inner + i] = static_cast<T>(std::clamp(sum, kLow, kHigh));
    }
}

template <class T>
void run_task(const Plan& p, const void* in, void* out, int64_t task) {
  const int64_t line = p.middle * p.second.in * p.inner;  // from one place of the first axis to the next
  const int64_t end = std::min(p.rows(), (task + 1) * p.rows_per_task());
  const auto blend = p.first.count == 2 && p.second.count == 2   ? blend_row<T, 2, 2>
                     : p.first.count == 1 && p.second.count == 2 ? blend_row<T, 1, 2>
                                                                 : blend_row<T, 0, 0>;
  for (int64_t row = task * p.rows_per_task(); row < end; ++row) {
    const int64_t m = row % p.middle, o = row / p.middle % p.first.out, outer = row / p.middle / p.first.out;
    blend(p, static_cast<const T*>(in) + outer * p.first.in * line + m * p.second.in * p.inner, line,
          p.first.weight.data() + o * p.first.count, p.first.index.data() + o * p.first.count,
          static_cast<T*>(out) + row * p.row());
  }
}

using Run = void (*)(const Plan&, const void*, void*, int64_t);
Run run_of(DType t) {
  switch (t) {
    case DType::kU8: return run_task<uint8_t>;
    case DType::kI8: return run_task<int8_t>;
    case DType::kU16: return run_task<uint16_t>;
    case DType::kI16: return run_task<int16_t>;
    case DType::kU32: return run_task<uint32_t>;
    default: return run_task<int32_t>;
  }
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(Plan plan, read(p));
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  if (!x.known()) return refused("reads a value made inside the region");
  const int64_t tasks = plan.tasks();
  return TaskInstance::make(tasks, 0,
                            [plan = std::move(plan), run = run_of(p.anchor().in(0)->type.dtype), x](
                                int64_t task, const Args& args) { run(plan, x.data(args), args.out[0], task); });
}
}  // namespace

extern const Entry resize_integers_entry;
const Entry resize_integers_entry{{
    .name = "resize_integers",
    .version = 1,
    .provider = "peri",
    .takes = "linear, cubic and antialiased resize of integers of up to 32 bits along one or two axes",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: u8[1,3,37,41]; const s: i64[4] = [1, 3, 24, 56]; y = resize(x, _, _, s) "
                "{mode=\"linear\"}; output y }",
                "graph { input x: i8[1,19,23,3]; const s: f32[4] = [1.0, 2.5, 0.5, 1.0]; y = resize(x, _, s) "
                "{mode=\"cubic\"}; output y }",
                "graph { input x: u16[5,64]; const s: i64[2] = [5, 23]; y = resize(x, _, _, s) {antialias=1, "
                "mode=\"linear\"}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
