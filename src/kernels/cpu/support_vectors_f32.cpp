// Kernel support_vectors_f32: support vector machines over rows of f32. The kernels of a few rows with all vectors are
// computed side by side; then each result is a product with the coefficients.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/machines/near.hpp"
#include "kernels/cpu/simd/arrays.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "ops/reference/machines.hpp"

namespace peri::kernels {
namespace {
// Multiplications in a task, so that waking a thread for it pays off.
// Measured: benchmarks/results/2026-11-29_classical.md.
constexpr int64_t kTaskWork = 1 << 15;

using cpu::machines::kMaxRows;
using ops::KernelKind;

struct Plan {
  ops::Machine machine;
  bool classifies = false, wide = false;  // wide: AVX-512
  int64_t rows = 0, vectors = 0;          // of a machine without support vectors: the rows of its coefficients
  std::vector<float> support;             // as Near::support
  std::vector<float> factors;             // [row][vector]
  int labels_at = -1, scores_at = -1;     // of the results
  int64_t width() const { return wide ? cpu::machines::avx512::kWidth : cpu::machines::avx2::kWidth; }
  int64_t blocks() const { return (vectors + width() - 1) / width(); }
  int64_t stride() const { return blocks() * width(); }  // between the kernels of two rows
  int64_t per_task() const {
    const int64_t rows_of_work = kTaskWork / std::max<int64_t>(1, vectors * (machine.features + 8)), each = kMaxRows;
    return std::max<int64_t>(1, (rows_of_work + each - 1) / each) * each;
  }
  int64_t tasks() const { return (rows + per_task() - 1) / per_task(); }
};

// In the blocks that all rows are compared with.
std::vector<float> blocked(const Plan& p, const std::vector<double>& vectors) {
  const int64_t features = p.machine.features, width = p.width();
  std::vector<float> out(static_cast<size_t>(p.stride() * features));
  for (int64_t v = 0; v < p.vectors; ++v)
    for (int64_t f = 0; f < features; ++f)
      out[static_cast<size_t>((v / width * features + f) * width + v % width)] =
          static_cast<float>(vectors[static_cast<size_t>(v * features + f)]);
  return out;
}

Result<Plan> read(const Problem& p, const Target& target) {
  const ir::Node& n = p.anchor();
  Plan out;
  out.classifies = n.op == "svm_classifier";
  if (!out.classifies && n.op != "svm_regressor") return refused("not a support vector machine");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only");
  PERI_ASSIGN(out.machine, out.classifies ? ops::read_classifier(n) : ops::read_regressor(n));
  const ops::Machine& m = out.machine;
  if (!m.names.empty()) return refused("labels that are texts");
  constexpr double kMaxDegree = 64;  // one product each
  if (m.kind == KernelKind::kPoly && !(m.degree >= 0 && m.degree <= kMaxDegree))
    return refused("a negative or large degree");
  const std::vector<int64_t> d = dims_of(*n.in(0));
  out.rows = d[0];
  if (out.rows == 0 || m.features == 0 || d[1] != m.features) return refused("no rows, or no features");
  for (size_t k = 0; k < p.graph->outputs.size(); ++k)
    for (size_t o = 0; o < n.outputs.size(); ++o)
      if (p.graph->outputs[k] == n.outputs[o])
        (out.classifies && o == 0 ? out.labels_at : out.scores_at) = static_cast<int>(k);
  PERI_ASSIGN(const cpu::Isa isa, cpu::best_isa(target));
  out.wide = isa == cpu::Isa::kAvx512;
  out.vectors = m.vectors > 0 ? m.vectors : out.classifies ? m.classes : 1;
  out.support = blocked(out, m.vectors > 0 ? m.support : m.coefficients);
  if (m.vectors > 0) out.factors.assign(m.coefficients.begin(), m.coefficients.end());
  return out;
}

// The kernels of up to kMaxRows rows with all vectors: [row][stride()].
void kernels_of(const Plan& p, const float* x, int64_t rows, float* near) {
  const ops::Machine& m = p.machine;
  cpu::machines::Near n{x, p.support.data(), near, m.features, p.blocks()};
  n.squares = m.kind == KernelKind::kRbf;
  if (m.kind != KernelKind::kLinear) n.gamma = static_cast<float>(n.squares ? -m.gamma : m.gamma);
  if (m.kind == KernelKind::kPoly || m.kind == KernelKind::kSigmoid) n.shift = static_cast<float>(m.coef0);
  if (m.kind == KernelKind::kPoly) n.degree = static_cast<int>(m.degree);
  (p.wide ? cpu::machines::avx512::compute : cpu::machines::avx2::compute)(n, rows);
  if (m.kind != KernelKind::kRbf && m.kind != KernelKind::kSigmoid) return;
  const auto f = n.squares ? simd::Function::kExp : simd::Function::kTanh;
  (p.wide ? simd::avx512::apply : simd::avx2::apply)(f, near, near, rows * p.stride());
}

// In eight sums, which do not wait for each other.
float product(const float* a, const float* b, int64_t count) {
  constexpr int64_t kSums = 8;
  float sums[kSums] = {};
  int64_t k = 0;
  for (; k + kSums <= count; k += kSums)
    for (int64_t j = 0; j < kSums; ++j) sums[j] += a[k + j] * b[k + j];
  for (; k < count; ++k) sums[0] += a[k] * b[k];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

// Each pair of classes votes, and has a score.
int64_t vote(const Plan& p, const float* near, std::vector<double>* scores) {
  const ops::Machine& m = p.machine;
  std::vector<int64_t> votes(static_cast<size_t>(m.classes));
  const auto part = [&](size_t of, size_t with) {
    const int64_t first = m.first[of];
    return product(p.factors.data() + static_cast<int64_t>(with) * p.vectors + first, near + first, m.each[of]);
  };
  for (size_t a = 0; a < m.each.size(); ++a)
    for (size_t b = a + 1; b < m.each.size(); ++b) {
      const float score = part(a, b - 1) + part(b, a) + static_cast<float>(m.rho[scores->size()]);
      ++votes[score > 0 ? a : b];
      scores->push_back(score);
    }
  return std::max_element(votes.begin(), votes.end()) - votes.begin();
}

void classify(const Plan& p, const float* near, int64_t row, const Args& args) {
  const ops::Machine& m = p.machine;
  std::vector<double> scores;
  int64_t best = 0;
  if (m.vectors == 0) {
    for (int64_t c = 0; c < m.classes; ++c) scores.push_back(near[c] + static_cast<float>(m.rho[0]));
    best = std::max_element(scores.begin(), scores.end()) - scores.begin();
  } else {
    best = vote(p, near, &scores);
    if (m.has_probabilities) scores = ops::probabilities_of(m, scores);
  }
  if (p.labels_at >= 0)
    static_cast<int64_t*>(args.out[static_cast<size_t>(p.labels_at)])[row] = m.numbers[static_cast<size_t>(best)];
  if (p.scores_at < 0) return;
  if (scores.size() == 1) scores.insert(scores.begin(), -scores[0]);
  if (m.transform != ops::Transform::kNone) scores = ops::transformed(std::move(scores), m.transform);
  float* const to = static_cast<float*>(args.out[static_cast<size_t>(p.scores_at)]) + row * std::ssize(scores);
  std::copy(scores.begin(), scores.end(), to);
}

void regress(const Plan& p, const float* near, int64_t row, const Args& args) {
  const ops::Machine& m = p.machine;
  const float sum =
      (m.vectors == 0 ? near[0] : product(p.factors.data(), near, p.vectors)) + static_cast<float>(m.rho[0]);
  static_cast<float*>(args.out[0])[row] = !m.one_class ? sum : sum > 0 ? 1.0F : -1.0F;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p, target));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(Plan made, read(p, *c.target));
  const auto plan = std::make_shared<const Plan>(std::move(made));
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  if (!x.known()) return refused("reads a value made inside the region");
  const auto scratch = static_cast<size_t>(kMaxRows * plan->stride()) * sizeof(float);
  return TaskInstance::make(plan->tasks(), scratch, [plan, x](int64_t task, const Args& args) {
    auto* const near = reinterpret_cast<float*>(args.scratch);
    const int64_t end = std::min(plan->rows, (task + 1) * plan->per_task());
    for (int64_t row = task * plan->per_task(); row < end; row += kMaxRows) {
      const int64_t count = std::min(kMaxRows, end - row);
      kernels_of(*plan, x.f32(args) + row * plan->machine.features, count, near);
      for (int64_t r = 0; r < count; ++r) {
        const float* const of_row = near + r * plan->stride();
        plan->classifies ? classify(*plan, of_row, row + r, args) : regress(*plan, of_row, row + r, args);
      }
    }
  });
}
}  // namespace

extern const Entry support_vectors_f32_entry;
const Entry support_vectors_f32_entry{{
    .name = "support_vectors_f32",
    .version = 1,
    .provider = "peri",
    .takes = "support vector machines over f32, with numbers for labels",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f32[40,3]; y = svm_regressor(x) {n_supports=9, kernel_type=\"SIGMOID\", "
                "kernel_params=[0.5, 0.25, 3.0], coefficients=[1.0, -0.5, 0.25, 0.75, -1.0, 0.5, -0.25, 0.125, 1.5], "
                "rho=[0.125], support_vectors=[0.5, 0.25, -1.0, 0.0, 0.75, 2.0, 1.0, -0.5, 0.25, 0.125, 1.5, -0.75, "
                "0.5, 0.5, 0.25, -1.25, 0.0, 1.0, 0.75, -0.5, 0.5, 0.25, 1.0, -1.0, 0.0, 0.25, 0.5]}; output y }",
                "graph { input x: f32[7,2]; y = svm_regressor(x) {n_supports=3, one_class=1, kernel_type=\"RBF\", "
                "kernel_params=[0.5, 0.0, 3.0], coefficients=[1.0, 0.5, 0.25], rho=[-0.75], "
                "support_vectors=[0.5, 0.25, -1.0, 0.0, 0.75, 2.0]}; output y }",
                "graph { input x: f32[6,2]; y, z = svm_classifier(x) {classlabels_ints=[4, 7], "
                "kernel_type=\"RBF\", kernel_params=[0.5, 0.0, 0.0], vectors_per_class=[1, 2], "
                "coefficients=[1.0, -0.5, -0.5], rho=[0.125], prob_a=[-1.5], prob_b=[0.25], "
                "support_vectors=[0.5, 0.25, -1.0, 0.0, 0.75, 2.0]}; output y; output z }",
                "graph { input x: f32[6,2]; y, z = svm_classifier(x) {classlabels_ints=[4, 7, 9], "
                "kernel_type=\"POLY\", kernel_params=[0.5, 1.0, 3.0], vectors_per_class=[1, 1, 1], "
                "post_transform=\"SOFTMAX\", coefficients=[1.0, -0.5, 0.25, 0.5, 0.75, -1.0], rho=[0.125, -0.25, "
                "0.0], support_vectors=[0.5, 0.25, -1.0, 0.0, 0.75, 2.0]}; output y; output z }",
                "graph { input x: f32[5,2]; y, z = svm_classifier(x) {classlabels_ints=[4, 7, 9], "
                "coefficients=[1.0, -0.5, 0.25, 0.5, 0.75, -1.0], rho=[0.125]}; output y; output z }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
