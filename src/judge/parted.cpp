// Three ways to see that an answer is another side of a tie, the cheapest last word first.
#include "judge/parted.hpp"

#include <algorithm>

#include "judge/budget.hpp"
#include "judge/peer.hpp"
#include "judge/whole.hpp"
#include "plan/program.hpp"

namespace peri::judge {

Result<std::vector<Tensor>> reference_outputs(const ir::Graph& model, std::span<const Tensor> inputs, int threads) {
  std::vector<ops::RefTensor> in;
  for (const Tensor& t : inputs) in.push_back(ops::to_ref(t));
  PERI_ASSIGN(const auto out, ops::run_reference(model, in, {0, threads, false, {}}));
  std::vector<Tensor> tensors;
  for (const ops::RefTensor& r : out) tensors.push_back(ops::from_ref(r));
  return tensors;
}

namespace {
// A reference that is run again and again takes seconds at most.
constexpr double kMaxShakenFlops = 1e9;
constexpr uint64_t kShakes = 16;  // each crosses about half of the ties

// How far the reference's own output moves where each operation errs within its round-off.
Result<double> reference_moves(const ir::Graph& model, std::span<const Tensor> inputs, const Tensor& exact, size_t k,
                               int threads) {
  std::vector<ops::RefTensor> in;
  for (const Tensor& t : inputs) in.push_back(ops::to_ref(t));
  double moves = 0;
  for (uint64_t seed = 1; seed <= kShakes; ++seed) {
    ops::RefOptions options{unit_roundoff(DType::kF32), threads, false, {}};
    options.shake = seed;
    PERI_ASSIGN(const auto answer, ops::run_reference(model, in, options));
    const auto d = difference(exact, ops::from_ref(answer[k]), {});
    if (d.ok() && std::isfinite(d->linf)) moves = std::max(moves, d->linf);
  }
  return moves;
}

// Of the reference alone; an error is that nothing can be said.
Result<bool> reference_says_so(const Subject& s, const VerifyTerms& terms, const Budget& budget, const PartedRun& run,
                               OutputVerdict* o) {
  const size_t k = run.output;
  std::vector<std::vector<int64_t>> dims;
  for (const Tensor& t : run.inputs) dims.push_back(t.dims());
  PERI_ASSIGN(const DimBinding sizes, plan::bind_dims(s.engine->program(), dims));
  PERI_TRY(check_affordable(run.model, sizes));
  if (run.exact->empty()) {
    terms.tell("the float64 reference");
    PERI_ASSIGN(*run.exact, reference_outputs(run.model, run.inputs, terms.threads));
  }
  const Tensor &exact = (*run.exact)[k], &theirs = run.theirs[k];
  OutputVerdict held;
  PERI_ASSIGN(held.difference, difference(exact, theirs, budget.tolerance));
  o->peer_near = breach(held, budget.allowed(theirs.dtype()), budget, theirs.dtype()).empty();
  if (o->peer_near || !(flops_at(run.model, sizes) <= kMaxShakenFlops)) return o->peer_near;
  terms.tell("the float64 reference, by the round-off of its operations");
  PERI_ASSIGN(o->reference_moves, reference_moves(run.model, run.inputs, exact, k, terms.threads));
  return o->difference.linf <= 2 * o->reference_moves;
}
}  // namespace

Result<bool> means_the_same(const Subject& s, const VerifyTerms& terms, const Budget& budget, const PartedRun& run,
                            OutputVerdict* o, std::string* why) {
  const size_t k = run.output;
  terms.tell("ONNX Runtime, by one rounding of the inputs");
  const std::vector<Tensor> inputs(run.inputs.begin(), run.inputs.end()), theirs(run.theirs.begin(), run.theirs.end());
  PERI_ASSIGN(const std::vector<double> moves,
              onnxruntime_moves(terms.peer_model, s.engine->program(), inputs, theirs, terms.threads));
  o->peer_moves = moves[k];
  if (o->difference.linf <= 2 * moves[k]) return true;
  *why = format("; ONNX Runtime's own answer moves by %.3g of it by one rounding of the inputs",
                moves[k] / o->difference.linf);
  auto said = reference_says_so(s, terms, budget, run, o);
  if (!said.ok() && said.error().kind == ErrorKind::kCancelled) return std::move(said).error();
  return said.ok() && *said;
}

}  // namespace peri::judge
