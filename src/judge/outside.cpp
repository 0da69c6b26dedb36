// An answer that is outside its budget: held against the model as the engine stores it, value by value, against both
// programs' float64 answers, and by how far one rounding moves it.
#include "judge/outside.hpp"

#include <algorithm>
#include <cmath>

#include "judge/budget.hpp"
#include "judge/followed.hpp"
#include "judge/nudged.hpp"
#include "judge/parted.hpp"
#include "judge/whole.hpp"
#include "plan/program.hpp"

namespace peri::judge {

namespace {
std::vector<std::vector<int64_t>> dims_of(std::span<const Tensor> tensors) {
  std::vector<std::vector<int64_t>> dims;
  for (const Tensor& t : tensors) dims.push_back(t.dims());
  return dims;
}

// The share of the change between two seeds, of another difference of the same output.
void scale_change(const OutputVerdict& o, OutputVerdict* held) {
  if (o.of_change && o.difference.linf > 0) held->of_change = *o.of_change * held->difference.linf / o.difference.linf;
}

// The flag whose bound an answer is beyond.
const char* flag_of(const OutputVerdict& o, const Budget& b, DType type) {
  if (!(o.difference.relative <= b.allowed(type))) return "--max-error";
  return o.difference.cosine >= b.min_cosine ? "--max-change" : "--min-cosine";
}

// Output k of run n and what the engine keeps on the way to it, against a model.
Result<Followed> value_by_value(const Subject& s, const ir::Graph& model, const VerifyTerms& terms, const Runs& r,
                                size_t n, size_t k, runtime::Session& session) {
  const std::string& output = s.engine->program().outputs[k].name;
  const auto each = [&](const std::string& value) { terms.tell("'" + value + "' on the way to '" + output + "'"); };
  return follow(model, k, session, r.inputs[n], r.got[n][k], {terms.threads, 0, each});
}
}  // namespace

Status affordable(const Subject& s, std::span<const Tensor> inputs) {
  PERI_ASSIGN(const DimBinding sizes, plan::bind_dims(s.engine->program(), dims_of(inputs)));
  return check_affordable(s.reference, sizes);
}

Status hold_rounded(References& references, const Runs& r, size_t n, size_t k, const Budget& budget, double* allowed,
                    std::string* beyond, OutputVerdict* o) {
  const Tensor &want = r.want[n][k], &got = r.got[n][k];
  if (!is_float(got.dtype())) return Ok{};
  PERI_ASSIGN(double moved, references.moved_by_values(want, k));
  PERI_ASSIGN(const std::vector<Tensor>* stored, references.stored());
  PERI_ASSIGN(const Difference by_weights, difference(want, (*stored)[k], {}));
  if (std::isfinite(by_weights.relative) && by_weights.relative > 0) {
    OutputVerdict held = *o;
    PERI_ASSIGN(held.difference, difference((*stored)[k], got, budget.tolerance));
    scale_change(*o, &held);
    if (breach(held, budget.allowed(got.dtype()), budget, got.dtype()).empty()) {
      o->inside = true;
      o->own_error = held.difference.relative;
      o->stored_moves = by_weights.relative;
      return Ok{};
    }
    moved = std::max(moved, by_weights.relative);
  }
  *allowed = std::max(*allowed, room_for_rounding(moved));
  *beyond = breach(*o, *allowed, budget, got.dtype());
  o->inside = beyond->empty();
  return Ok{};
}

Status follow_answer(const Subject& s, const VerifyTerms& terms, const Runs& r, size_t n, size_t k,
                     const Budget& budget, runtime::Session& session, std::vector<Tensor>* exact, OutputVerdict* o,
                     std::string* why) {
  const Tensor& got = r.got[n][k];
  if (!terms.reference_dir.empty() || kept_budget(terms.budget, !terms.peer_model.empty(), *o, got.dtype()))
    return Ok{};
  if (k >= s.reference.outputs.size()) return Ok{};  // the subject was opened without one
  // An engine's source has quantized products in place of the model's roundings, at which alone the two may part.
  const ir::Graph& model = r.model ? *r.model : s.reference;
  if (k >= model.outputs.size() || !behind_jump(model, model.outputs[k])) return Ok{};
  if (!terms.peer_model.empty()) {
    PERI_ASSIGN(const bool same, means_the_same(s, terms, budget, {model, r.inputs[n], r.want[n], k, exact}, o, why));
    if (!same || !affordable(s, r.inputs[n]).ok()) return Ok{};
  }
  const auto f = value_by_value(s, model, terms, r, n, k, session);
  if (!f.ok() && f.error().kind == ErrorKind::kCancelled) return f.error();
  if (!f.ok() || !f->wrong.empty()) {
    *why = "; held value by value, " + (f.ok() ? f->wrong : f.error().text());
    return Ok{};
  }
  o->inside = true;
  o->followed = f->values;
  o->ties = f->ties;
  return Ok{};
}

Status weigh_moves(const Subject& s, const VerifyTerms& terms, const Runs& r, size_t n, size_t k,
                   runtime::Session& session, OutputVerdict* o, std::string* why) {
  constexpr double kTold = 0.125;    // of the error: a model of some such steps, each rounded, is off by a few moves
  constexpr double kTimesMoves = 2;  // both answers move, and may to opposite sides
  const Tensor& got = r.got[n][k];
  if (!terms.peer_model.empty() || !terms.reference_dir.empty() || !is_float(got.dtype())) return Ok{};
  terms.tell("the float64 reference, by one rounding of its inputs and weights");
  const auto moves = model_moves(s.reference, r.inputs[n], r.want[n][k], k, terms.threads);
  if (!moves.ok() && moves.error().kind == ErrorKind::kCancelled) return moves.error();
  if (!moves.ok() || *moves < kTold * o->difference.relative) return Ok{};
  o->model_moves = *moves;
  const plan::Program& program = s.engine->program();
  const bool float32 = !is_narrow(plan::values_type(program)) && !is_narrow(program.precision);
  // Behind a jump the answer was followed before, in vain.
  if (o->difference.relative <= kTimesMoves * *moves && *moves <= kMaxShareOfSpread && float32 &&
      !kept_budget(terms.budget, false, *o, got.dtype()) && !behind_jump(s.reference, s.reference.outputs[k])) {
    const auto f = value_by_value(s, s.reference, terms, r, n, k, session);
    if (!f.ok() && f.error().kind == ErrorKind::kCancelled) return f.error();
    o->inside = f.ok() && f->wrong.empty() && f->off == 0 && f->unbounded == 0;
    if (o->inside) o->followed = f->values;
    if (f.ok() && f->off > 0) *why += "; held value by value, " + f->first;
  }
  *why += format(
      "; the model's own answer moves by %.3g of its range by one rounding of its inputs and weights: %s says how far "
      "it "
      "may be off",
      *moves, flag_of(*o, terms.budget, got.dtype()));
  return Ok{};
}

namespace {
// The step that an answer is rounded to, which is bytes read as numbers: the largest of its scales. 0: it is none.
double step_of(const ir::Value* answer) {
  const ir::Node* n = answer->producer;
  for (const ops::OpDef* op = n ? ops::find(n->op) : nullptr; op && (op->view || op->moves) && n->inputs.size() == 1;
       op = n ? ops::find(n->op) : nullptr)
    n = n->in(0)->producer;
  // By name: its second argument is the size of a step.
  if (!n || n->op != "dequantize_linear" || !n->in(1) || !n->in(1)->constant) return 0;
  double step = 0;
  for (int64_t k = 0; k < n->in(1)->constant->numel(); ++k)
    step = std::max(step, std::fabs(n->in(1)->constant->f64(k)));
  return step;
}

// Whether two answers part by a step at fewer than half of their elements, as they do where a value lies close to the
// middle of two bytes, and mean much the same: what reads the model otherwise parts at most of them.
bool parts_by_a_step(const ir::Value* answer, const Difference& d) {
  constexpr double kMaxShare = 0.5, kMinCosine = 0.99, kRounding = 1e-3;
  const double step = step_of(answer);
  return step > 0 && d.linf <= step * (1 + kRounding) && d.l0 <= kMaxShare && d.cosine >= kMinCosine;
}
}  // namespace

Status ask_reference(const Subject& s, const VerifyTerms& terms, const Runs& r, size_t n, size_t k,
                     const Budget& budget, References& references, OutputVerdict* o, std::string* why) {
  if (terms.peer_model.empty() || k >= s.reference.outputs.size() || !affordable(s, r.inputs[n]).ok()) return Ok{};
  terms.tell("the float64 reference");
  const auto ours = references.stored();
  const auto theirs = ours.ok() ? references.own() : ours;
  for (const auto* made : {&ours, &theirs}) {
    if (!made->ok() && made->error().kind == ErrorKind::kCancelled) return made->error();
    if (!made->ok()) return Ok{};  // it judges nothing
  }
  const DType type = r.got[n][k].dtype();
  PERI_ASSIGN(const double moved, references.moved_by_values((**ours)[k], k));
  std::string beyond[2];
  double error[2] = {}, cosine = -1;
  for (const bool peer : {false, true}) {
    const auto d = difference((peer ? **theirs : **ours)[k], peer ? r.want[n][k] : r.got[n][k], budget.tolerance);
    if (!d.ok()) return Ok{};
    OutputVerdict held = *o;
    held.difference = *d;
    scale_change(*o, &held);
    const double allowed = budget.allowed(type);
    beyond[peer] =
        breach(held, peer || budget.given ? allowed : std::max(allowed, room_for_rounding(moved)), budget, type);
    error[peer] = d->relative;
    cosine = d->cosine;  // of the peer's at last
  }
  o->own_error = error[0];
  o->peer_error = error[1];
  const auto by_weights = difference((**theirs)[k], (**ours)[k], {});
  if (by_weights.ok() && std::isfinite(by_weights->relative)) o->stored_moves = by_weights->relative;
  // An engine's own weights are all that is known of it where the model's are not.
  const bool known = references.parts() || !is_narrow(s.engine->program().precision);
  const bool alike = cosine >= peer_budget().min_cosine || parts_by_a_step(s.reference.outputs[k], o->difference);
  o->peer_is_off = known && is_float(type) && beyond[0].empty() && !beyond[1].empty() && alike;
  // Two right answers may lie on either side of the exact one.
  const bool both_right = is_float(type) && beyond[0].empty() && beyond[1].empty();
  o->inside = (o->peer_is_off || both_right) && !kept_budget(terms.budget, !terms.peer_model.empty(), *o, type);
  if (o->stored_moves > 0)
    *why += format("; rounding the weights to %s moves the answer by %.3g of the range, and each is held by its own",
                   std::string(dtype_name(budget.precision)).c_str(), o->stored_moves);
  *why += format("; against the float64 reference ours is off by %.3g of the range, ONNX Runtime's by %.3g%s", error[0],
                 error[1], o->peer_is_off ? ": ONNX Runtime's is the inexact one" : "");
  return Ok{};
}

}  // namespace peri::judge
