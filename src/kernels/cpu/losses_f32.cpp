// Kernel losses_f32: negative log likelihood of f32: unreduced, summed, or averaged.
#include <algorithm>

#include "kernels/cpu/indexed.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
// Measured: benchmarks/results/2026-11-23_constants_rest.md.
constexpr int64_t kTaskTargets = 4096;

struct Shape {
  int64_t targets = 1, classes = 1, inner = 1, ignored = 0;
  bool wide = true, ignores = false, reduced = true, mean = true;
  int64_t tasks() const { return (targets + kTaskTargets - 1) / kTaskTargets; }
};

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "negative_log_likelihood_loss") return refused("not a negative log likelihood");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only");
  const std::vector<int64_t> d = dims_of(*n.in(0));
  Shape s;
  s.classes = d[1];
  for (size_t k = 2; k < d.size(); ++k) s.inner *= d[k];
  s.targets = d[0] * s.inner;
  s.wide = n.in(1)->type.dtype == DType::kI64;
  s.ignores = n.has("ignore_index");
  s.ignored = n.i("ignore_index");
  const std::string how = n.s("reduction", "mean");
  s.reduced = how != "none";
  s.mean = how == "mean";
  if (s.targets * s.classes == 0) return refused("an empty tensor");
  return s;
}

// Sums of a task's losses and of their weights: float64, so that how they are cut changes nothing that float32 shows.
struct Sums {
  double loss, weight;
};

bool run_task(const Shape& s, const float* x, const void* target, const float* weight, float* y, Sums* sums,
              int64_t task) {
  const int64_t begin = task * kTaskTargets, end = std::min(s.targets, begin + kTaskTargets);
  Sums own = {0, 0};
  for (int64_t p = begin; p < end; ++p) {
    const int64_t t = index_at(target, s.wide, p);
    float loss = 0;
    if (!s.ignores || t != s.ignored) {
      if (static_cast<uint64_t>(t) >= static_cast<uint64_t>(s.classes)) return false;
      const float w = weight ? weight[t] : 1.0F;
      loss = -w * x[(p / s.inner * s.classes + t) * s.inner + p % s.inner];
      own.weight += w;
    }
    if (s.reduced)
      own.loss += loss;
    else
      y[p] = loss;
  }
  if (s.reduced) sums[task] = own;
  return true;
}

class LossInstance final : public Instance {
 public:
  LossInstance(Shape s, Source x, Source target, Source weight)
      : Instance({64 + sizeof(Sums) * static_cast<size_t>(s.tasks()), 0, {1, s.tasks(), 1}, {}}),
        s_(s),
        x_(std::move(x)),
        target_(std::move(target)),
        weight_(std::move(weight)) {}
  void run_task(int phase, int64_t task, const Args& args) const override {
    auto* const bad = reinterpret_cast<std::atomic<int64_t>*>(args.workspace);
    auto* const sums = reinterpret_cast<Sums*>(args.workspace + 64);
    auto* const y = static_cast<float*>(args.out[0]);
    if (phase == 0) return bad->store(0);
    if (phase == 1) {
      if (!kernels::run_task(s_, x_.f32(args), target_.data(args), weight_.f32(args), y, sums, task)) bad->store(1);
      return;
    }
    if (!s_.reduced || bad->load() != 0) return;
    Sums all = {0, 0};
    for (int64_t k = 0; k < s_.tasks(); ++k) {
      all.loss += sums[k].loss;
      all.weight += sums[k].weight;
    }
    *y = static_cast<float>(s_.mean ? all.loss / all.weight : all.loss);
  }
  Status finish(const Args& args) const override {
    if (reinterpret_cast<std::atomic<int64_t>*>(args.workspace)->load() == 0) return Ok{};
    return invalid("a target is not a class").expecting(format("[0, %lld)", static_cast<long long>(s_.classes)));
  }

 private:
  Shape s_;
  Source x_, target_, weight_;
};

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  const ir::Node& n = p.anchor();
  const Source x = Source::of(p, n.in(0), c.constants), target = Source::of(p, n.in(1), c.constants),
               weight = Source::of(p, n.in(2), c.constants);
  if (!x.known() || !target.known() || (n.in(2) && !weight.known()))
    return refused("reads a value made inside the region");
  return std::unique_ptr<Instance>(std::make_unique<LossInstance>(s, x, target, weight));
}
}  // namespace

extern const Entry losses_f32_entry;
const Entry losses_f32_entry{{
    .name = "losses_f32",
    .version = 1,
    .provider = "peri",
    .takes = "negative log likelihoods of f32, with weights and an ignored class, by any reduction",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f32[90,7,70]; input t: i64[90,70]; input w: f32[7]; y = "
                "negative_log_likelihood_loss(x, t, w) {ignore_index=2}; output y }",
                "graph { input x: f32[9,7]; input t: i32[9]; y = negative_log_likelihood_loss(x, t) "
                "{reduction=\"none\"}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
