// Inputs at the neighbours of their elements, and what answers make of them.
#include "judge/nudged.hpp"

#include <algorithm>
#include <cmath>

#include "base/rng.hpp"
#include "judge/difference.hpp"
#include "judge/whole.hpp"
#include "ops/entry.hpp"

namespace peri::judge {

Result<std::vector<Tensor>> nudged(std::span<const Tensor> inputs, uint64_t seed) {
  Rng rng(seed);
  std::vector<Tensor> out;
  for (const Tensor& t : inputs) {
    out.push_back(t);
    if (t.dtype() != DType::kF32) continue;
    PERI_ASSIGN(out.back(), Tensor::zeros(t.dtype(), t.dims()));
    for (int64_t k = 0; k < t.numel(); ++k) {
      const float v = static_cast<float>(t.f64(k)), to = rng.below(2) == 0 ? -INFINITY : INFINITY;
      out.back().set_f64(k, static_cast<double>(std::isfinite(v) ? std::nextafter(v, to) : v));
    }
  }
  return out;
}

Result<double> moves_of_range(const Answers& answers, std::span<const Tensor> inputs, const Tensor& answer, size_t k) {
  constexpr uint64_t kNudges = 4;  // the largest of four is near what the worst one gives
  double moves = 0;
  if (std::none_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.dtype() == DType::kF32; }))
    return moves;
  for (uint64_t seed = 1; seed <= kNudges; ++seed) {
    PERI_ASSIGN(const std::vector<Tensor> near, nudged(inputs, seed));
    PERI_ASSIGN(const std::vector<Tensor> moved, answers(near));
    const auto d = difference(answer, moved[k], {});
    if (d.ok() && std::isfinite(d->relative)) moves = std::max(moves, d->relative);
  }
  return moves;
}

Result<double> model_moves(const ir::Graph& graph, std::span<const Tensor> inputs, const Tensor& answer, size_t k,
                           int threads) {
  uint64_t weights = 0;  // a seed for each that was moved
  const auto answers = [&](std::span<const Tensor> near) -> Result<std::vector<Tensor>> {
    std::vector<ops::RefTensor> in;
    for (const Tensor& t : near) in.push_back(ops::to_ref(t));
    ir::Graph moved = graph.clone();
    for (const auto& v : moved.values())
      if (v->constant) {
        PERI_ASSIGN(std::vector<Tensor> weight, nudged({&*v->constant, 1}, ++weights));
        v->constant = std::move(weight[0]);
      }
    PERI_ASSIGN(const auto rounded, narrow_reference(moved, in, DType::kF32, threads));
    std::vector<Tensor> out;
    for (const ops::RefTensor& t : rounded) out.push_back(ops::from_ref(t));
    return out;
  };
  return moves_of_range(answers, inputs, answer, k);
}

}  // namespace peri::judge
