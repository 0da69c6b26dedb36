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
#include "judge/made_of.hpp"
#include "judge/outside.hpp"
#include "judge/parted.hpp"
#include "judge/peer.hpp"
#include "judge/seeded.hpp"
#include "judge/whole.hpp"
#include "plan/program.hpp"

namespace peri::judge {

namespace {
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
      PERI_ASSIGN(std::vector<Tensor> want, files ? file_outputs(terms.reference_dir, program)
                                                  : reference_outputs(s.reference, inputs, terms.threads));
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

// Every output of every run; what is outside first, in words.
Status compare_runs(const Subject& s, const VerifyTerms& terms, const Runs& r, runtime::Session& session,
                    Verification* v) {
  const plan::Program& program = s.engine->program();
  Budget budget = terms.budget;
  budget.precision = program.precision;
  for (size_t n = 0; n < r.got.size(); ++n) {
    References references(s, r.model ? &*r.model : nullptr, r.inputs[n], terms.threads);
    std::vector<Tensor> by_model;  // the reference's answers of r.model, where it is known
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
        PERI_TRY(
            follow_answer(s, terms, r, n, k, budget, session, r.model ? &by_model : references.kept_plain(), &o, &why));
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
      else if (!o.followed) {
        v->measured += 1;
        v->worst =
            std::max(v->worst, o.inside && (o.peer_is_off || by_own_weights) ? *o.own_error : o.difference.relative);
      }
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
    model = std::move(*made);
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
