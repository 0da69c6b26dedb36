// Runs, expected outputs, comparison.
#include "judge/verify.hpp"

#include <algorithm>

#include "base/file.hpp"
#include "base/npy.hpp"
#include "base/plural.hpp"
#include "base/stop.hpp"
#include "ir/bodies.hpp"
#include "judge/bisect.hpp"
#include "judge/budget.hpp"
#include "judge/followed.hpp"
#include "judge/made_of.hpp"
#include "judge/nudged.hpp"
#include "judge/parted.hpp"
#include "judge/peer.hpp"
#include "judge/rounded.hpp"
#include "judge/seeded.hpp"
#include "judge/whole.hpp"
#include "plan/program.hpp"

namespace peri::judge {

namespace {
std::vector<std::vector<int64_t>> dims_of(std::span<const Tensor> tensors) {
  std::vector<std::vector<int64_t>> dims;
  for (const Tensor& t : tensors) dims.push_back(t.dims());
  return dims;
}

Status affordable(const Subject& s, std::span<const Tensor> inputs) {
  PERI_ASSIGN(const DimBinding sizes, plan::bind_dims(s.engine->program(), dims_of(inputs)));
  return check_affordable(s.reference, sizes);
}

Result<std::vector<Tensor>> file_outputs(const std::string& dir, const plan::Program& program) {
  std::vector<Tensor> out;
  for (const plan::Port& p : program.outputs) {
    PERI_ASSIGN(Tensor t, read_npy(dir + "/" + percent_encode_name(p.name) + ".npy", p.dtype));
    out.push_back(std::move(t));
  }
  return out;
}

Result<std::vector<Tensor>> inputs_of(const Subject& s, const VerifyTerms& terms, uint64_t seed) {
  if (terms.inputs) return terms.inputs(seed);
  const plan::Program& program = s.engine->program();
  return random_inputs(program, DimBinding(program.tuned_for.begin(), program.tuned_for.end()), seed * 1000);
}

// What a model refuses of inputs that nobody gave may be theirs, as an element that it looks for and they do not hold.
Error of_made_up(Error e) {
  if (e.kind != ErrorKind::kInvalid || !e.remedy.empty()) return e;
  return std::move(e).advise("the inputs are made up: give your own");
}

// One run for each seed: inputs, our answers, and those they are held against.
struct Runs {
  std::vector<std::vector<Tensor>> inputs, got, want;
  std::optional<ir::Graph> model =
      std::nullopt;  // ONNX Runtime's, as imported, where an engine's own is known to be it
};

// The share of the change between two seeds, of another difference of the same output.
void scale_change(const OutputVerdict& o, OutputVerdict* held) {
  if (o.of_change && o.difference.linf > 0) held->of_change = *o.of_change * held->difference.linf / o.difference.linf;
}

// An empty output of another shape has no element that could differ: a loop that runs no iteration says no sizes of
// what its body gives. "": there is none, else the first.
std::string take_empty_shapes(const plan::Program& program, Runs* r) {
  std::string first;
  for (size_t n = 0; n < r->got.size(); ++n)
    for (size_t k = 0; k < r->got[n].size(); ++k) {
      const Tensor& got = r->got[n][k];
      Tensor& want = r->want[n][k];
      const bool empty = got.numel() == 0 && want.numel() == 0 && got.dtype() == want.dtype();
      if (!empty || got.rank() != want.rank() || got.dims() == want.dims()) continue;
      if (first.empty())
        first = "output '" + program.outputs[k].name + "' is empty, ours as " + tensor_type_text(got) + " and " +
                kOnnxRuntime + "'s as " + tensor_type_text(want);
      want = got;
    }
  return first;
}

Result<Runs> make_runs(const Subject& s, const VerifyTerms& terms, runtime::Session& session) {
  Runs r;
  const plan::Program& program = s.engine->program();
  const bool peer = !terms.peer_model.empty(), files = !terms.reference_dir.empty();
  if (peer) {  // what is no file would be waited for by another program
    PERI_ASSIGN(const auto model, MappedFile::open(terms.peer_model));
  }
  if (!files && !peer && terms.sizes) PERI_TRY(check_affordable(s.reference, *terms.sizes));
  for (uint64_t seed : terms.seeds) {
    PERI_ASSIGN(std::vector<Tensor> inputs, inputs_of(s, terms, seed));
    if (!files && !peer) PERI_TRY(affordable(s, inputs));
    auto got = session.run(inputs);
    if (!got.ok()) return terms.given ? got.error() : of_made_up(got.error());
    if (!peer) {
      terms.tell("the float64 reference, seed " + std::to_string(seed));
      PERI_ASSIGN(std::vector<Tensor> want,
                  files ? file_outputs(terms.reference_dir, program) : reference_outputs(s, inputs, terms.threads));
      r.want.push_back(std::move(want));
    }
    r.inputs.push_back(std::move(inputs));
    r.got.push_back(std::move(*got));
  }
  if (peer) {
    terms.tell(kOnnxRuntime);
    auto want = onnxruntime_outputs(terms.peer_model, program, r.inputs, terms.threads);
    if (!want.ok()) return terms.given ? want.error() : of_made_up(want.error());
    r.want = std::move(*want);
  }
  return r;
}

// The largest change of output k between the wanted answers of run n and of its neighbour; none where their shapes
// differ.
std::optional<double> change_of(const Runs& r, size_t n, size_t k) {
  if (r.want.size() < 2) return std::nullopt;
  const auto d = difference(r.want[n][k], r.want[n + 1 < r.want.size() ? n + 1 : n - 1][k], {});
  if (!d.ok() || !is_float(r.want[n][k].dtype())) return std::nullopt;
  return d->linf;
}

// Holds an output that is outside against the model with its weights rounded, as the engine keeps them, and gives it
// the room of what rounding moves it by; `beyond`: what it does not keep then.
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

// That two tensors of one type have other shapes; "" where they have not. How many elements there are may hang on a
// rounding, too.
std::string other_shape(const Tensor& want, const Tensor& got) {
  if (want.dtype() != got.dtype() || want.dims() == got.dims()) return "";
  return "its shape is another one: expected " + tensor_type_text(want) + ", found " + tensor_type_text(got);
}
Result<Difference> nothing_alike(const Tensor& want, const std::string& shape) {
  Difference d;
  d.count = want.numel();
  d.l0 = 1;
  d.l1 = d.l2 = d.linf = d.relative = INFINITY;
  d.cosine = 0;
  d.first = shape;
  return d;
}

// Output k of run n and what the engine keeps on the way to it, against the model.
Result<Followed> value_by_value(const Subject& s, const VerifyTerms& terms, const Runs& r, size_t n, size_t k,
                                runtime::Session& session) {
  const std::string& output = s.engine->program().outputs[k].name;
  const auto each = [&](const std::string& value) { terms.tell("'" + value + "' on the way to '" + output + "'"); };
  return follow(s.reference, k, session, r.inputs[n], r.got[n][k], {terms.threads, 0, each});
}

// An answer that is outside because of a unit at a tie is held value by value; `why` where that does not prove it. A
// budget that was given is kept. Where the reference cannot follow, the answer stays outside.
Status follow_answer(const Subject& s, const VerifyTerms& terms, const Runs& r, size_t n, size_t k,
                     const Budget& budget, runtime::Session& session, std::vector<Tensor>* exact, OutputVerdict* o,
                     std::string* why) {
  const Tensor& got = r.got[n][k];
  if (!terms.reference_dir.empty() || kept_budget(terms.budget, !terms.peer_model.empty(), *o, got.dtype()))
    return Ok{};
  if (k >= s.reference.outputs.size()) return Ok{};  // the subject was opened without one
  if (!behind_jump(s.reference, s.reference.outputs[k])) return Ok{};
  if (!terms.peer_model.empty()) {
    PERI_ASSIGN(const bool same, means_the_same(s, terms, budget, {r.inputs[n], r.want[n], k, exact}, o, why));
    if (!same || !affordable(s, r.inputs[n]).ok()) return Ok{};
  }
  const auto f = value_by_value(s, terms, r, n, k, session);
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

// Where the model's own answer moves by one rounding of its inputs and weights as far as the engine's is off, the model
// cancels, and no float32 program is sure to be nearer: an answer that is no more than twice as far off is right if
// each value that the engine keeps on the way is within its own, finite error. Otherwise it is said how far it moves.
Status weigh_moves(const Subject& s, const VerifyTerms& terms, const Runs& r, size_t n, size_t k,
                   runtime::Session& session, OutputVerdict* o, std::string* why) {
  constexpr double kTold = 0.125;  // of the error: a model of some such steps, each rounded, is off by a few moves
  constexpr double kTimesMoves = 2;
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
    const auto f = value_by_value(s, terms, r, n, k, session);
    if (!f.ok() && f.error().kind == ErrorKind::kCancelled) return f.error();
    o->inside = f.ok() && f->wrong.empty() && f->off == 0 && f->unbounded == 0;
    if (o->inside) o->followed = f->values;
    if (f.ok() && f->off > 0) *why += "; held value by value, " + f->first;
  }
  *why += format(
      "; the model's own answer moves by %.3g of its range by one rounding of its inputs and weights: --max-error says "
      "how far it may be off",
      *moves);
  return Ok{};
}

// Which of two answers that differ is off, if one is: each is held against the float64 reference of its own weights,
// within the same budget. The reference reads the model as the engine does: only an answer that means the same by its
// cosine is called inexact. A budget that was given stays one of their difference.
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
  o->peer_is_off =
      known && is_float(type) && beyond[0].empty() && !beyond[1].empty() && cosine >= peer_budget().min_cosine;
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

// Every output of every run; what is outside first, in words.
Status compare_runs(const Subject& s, const VerifyTerms& terms, const Runs& r, runtime::Session& session,
                    Verification* v) {
  const plan::Program& program = s.engine->program();
  Budget budget = terms.budget;
  budget.precision = program.precision;
  for (size_t n = 0; n < r.got.size(); ++n) {
    References references(s, r.model ? &*r.model : nullptr, r.inputs[n], terms.threads);
    for (size_t k = 0; k < r.got[n].size(); ++k) {
      const Tensor& got = r.got[n][k];
      OutputVerdict o{terms.given ? 0 : terms.seeds[n], program.outputs[k].name, tensor_type_text(got), {}, {}, false};
      const std::string shape = other_shape(r.want[n][k], got);
      auto d = shape.empty() ? difference(r.want[n][k], got, budget.tolerance) : nothing_alike(r.want[n][k], shape);
      if (!d.ok()) return std::move(d).error().at_node(o.output);
      o.difference = std::move(d).value();
      if (const std::optional<double> change = change_of(r, n, k))
        o.of_change = o.difference.linf == 0 ? 0 : o.difference.linf / *change;
      double allowed = budget.allowed(got.dtype());
      const bool nan = o.difference.both_nan > 0 && !budget.nan_equal;
      std::string beyond = shape.empty() ? breach(o, allowed, budget, got.dtype()) : shape;
      o.inside = !nan && beyond.empty();
      v->compared += o.difference.count;
      v->both_nan += o.difference.both_nan;
      if (nan && v->outside.empty())
        v->outside = proves_nothing(terms, n, o.output, o.difference.both_nan, o.difference.count);
      if (!o.inside && !nan && shape.empty() && !budget.given && terms.peer_model.empty() &&
          terms.reference_dir.empty()) {
        PERI_TRY(hold_rounded(references, r, n, k, budget, &allowed, &beyond, &o));
      }
      v->allowed = std::max(v->allowed, allowed);
      std::string why;
      if (!o.inside && !nan)
        PERI_TRY(follow_answer(s, terms, r, n, k, budget, session, references.kept_plain(), &o, &why));
      if (!o.inside && !nan) PERI_TRY(ask_reference(s, terms, r, n, k, budget, references, &o, &why));
      const size_t followed = o.followed > 0;
      if (!o.inside && !nan && !budget.given) PERI_TRY(weigh_moves(s, terms, r, n, k, session, &o, &why));
      v->followed += followed;
      v->moved += o.inside && o.model_moves > 0;
      v->peer_off += o.inside && o.peer_is_off;
      const bool by_own_weights = o.inside && !o.peer_is_off && o.followed == 0 && o.stored_moves > 0;
      v->stored += by_own_weights;
      if (o.inside && by_rounding(o.difference, budget, got.dtype()) && o.difference.relative > allowed)
        v->by_rounding += 1;
      else if (!o.followed)
        v->worst =
            std::max(v->worst, o.inside && (o.peer_is_off || by_own_weights) ? *o.own_error : o.difference.relative);
      if (!o.inside && v->outside.empty())
        v->outside = "output '" + o.output + "' is outside its budget" + at_seed(terms, n) + ": " + beyond + why;
      v->outputs.push_back(std::move(o));
    }
  }
  return Ok{};
}

}  // namespace

// The first node whose numbers are drawn; "": there is none.
static std::string drawing_node(const ir::Graph& graph) {
  std::string out;
  ir::for_each_node(graph, [&](const ir::Node& n) {
    const ops::OpDef* const op = ops::find(n.op);
    const auto is_stream = [](const ops::AttrSpec& a) { return a.name == "stream"; };  // of its random numbers
    if (out.empty() && op && std::any_of(op->attrs.begin(), op->attrs.end(), is_stream)) out = n.name;
  });
  return out;
}

Result<Verification> verify(const Subject& subject, const VerifyTerms& terms) {
  Verification v;
  v.path = subject.path;
  v.against = terms.steps_only               ? "each step alone"
              : !terms.peer_model.empty()    ? kOnnxRuntime
              : !terms.reference_dir.empty() ? terms.reference_dir
                                             : kFloat64;
  v.max_error = terms.budget.max_error;
  v.precision = subject.engine->program().precision;
  v.weights_checked = subject.weights_checked;
  v.draws = drawing_node(subject.reference);
  v.rounded = subject.source && is_narrow(v.precision);
  const StopScope scope(terms.stop);
  std::optional<ir::Graph> model;
  if (!terms.peer_model.empty() && terms.peer_model != subject.path) {
    terms.tell("import " + terms.peer_model);
    auto made = model_made_of(subject.engine->program(), terms.peer_model);
    if (!made.ok()) return std::move(made).error().in_file(terms.peer_model);
    if (is_narrow(v.precision)) model = std::move(*made);
  }
  PERI_ASSIGN(const auto session, runtime::Session::create(subject.engine));
  if (terms.steps_only) {
    PERI_ASSIGN(const std::vector<Tensor> inputs, inputs_of(subject, terms, terms.seeds.back()));
    PERI_ASSIGN(v.passed, bisect(subject, terms, *session, inputs, &v));
    v.runs = 1;
    if (subject.check_files) PERI_TRY(subject.check_files());
    return v;
  }
  PERI_ASSIGN(Runs runs, make_runs(subject, terms, *session));
  runs.model = std::move(model);
  if (!terms.peer_model.empty()) v.empty_shapes = take_empty_shapes(subject.engine->program(), &runs);
  v.runs = runs.got.size();
  if (Status s = compare_runs(subject, terms, runs, *session, &v); !s.ok())
    return std::move(s).error().in_file(subject.path);
  if (subject.check_files) PERI_TRY(subject.check_files());
  v.passed = v.outside.empty();
  if (terms.bisect) {
    PERI_ASSIGN(const bool right, bisect(subject, terms, *session, runs.inputs.back(), &v));
    v.passed = v.passed && right;
  }
  return v;
}

}  // namespace peri::judge
