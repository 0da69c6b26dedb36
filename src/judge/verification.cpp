// The outcome of a verification in words and as JSON.
#include <algorithm>

#include "base/json.hpp"
#include "base/plural.hpp"
#include "judge/verify.hpp"

namespace peri::judge {

namespace {
// Why ONNX Runtime's answers, from which followed ones part, mean the same.
std::string peer_moved(const std::vector<OutputVerdict>& outputs) {
  bool near = false, reference = false, own = false;
  for (const OutputVerdict& o : outputs) {
    if (o.followed == 0) continue;
    near |= o.peer_near;
    reference |= !o.peer_near && o.reference_moves > 0;
    own |= !o.peer_near && o.reference_moves == 0;
  }
  std::string out;
  if (own) out += ", and its own answer moves as far by one rounding";
  if (near) out += ", and ONNX Runtime's is within the budget against the float64 reference";
  if (reference) out += ", and the float64 reference moves as far by the round-off of its operations";
  return out;
}

// Of the answers that are held by a share of their range.
std::string error_text(const Verification& v) {
  if (v.measured == 0)
    return v.moved ? format(", allowed is an error of %.3g of the output's range", v.allowed) : std::string();
  return format(", largest error%s %.3g of the output's range, allowed %.3g",
                v.followed + v.moved > 0 ? " of the other answers" : "", v.worst, v.allowed);
}
}  // namespace

std::string Verification::text() const {
  std::string out = outside;
  const std::string held =
      against + (rounded && against == kFloat64 ? " of its weights in " + std::string(dtype_name(precision)) : "");
  const std::string nan =
      both_nan ? format(", and %lld of their elements are NaN", static_cast<long long>(both_nan)) : "";
  if (bisect && bisect->empty() && outputs.empty()) return "the engine has no step: nothing was judged";
  if (bisect && outputs.empty())
    return bisected + "; " + (out.empty() ? "the outputs were not compared with those of the whole model" + nan : out);
  if (out.empty() && compared == 0)
    out = format("%s against %s: no value was compared, as all outputs are empty; their types%s agree",
                 counted(static_cast<int64_t>(runs), "run").c_str(), against.c_str(),
                 empty_shapes.empty() ? " and shapes" : "");
  else if (out.empty())
    out = format("%s against %s", counted(static_cast<int64_t>(runs), "run").c_str(), held.c_str()) + error_text(*this);
  if (both_nan && outside.empty())
    out += format("; %lld elements are NaN on both sides and were taken for equal", static_cast<long long>(both_nan));
  if (followed && outside.empty())
    out += format(
        "; %s at roundings that float32 does not decide: each value that the engine keeps on the way is one "
        "that the reference reaches",
        followed == 1 ? "one answer parts from it" : format("%zu answers part from it", followed).c_str());
  if (followed && outside.empty() && against == kOnnxRuntime) out += peer_moved(outputs);
  if (by_rounding && outside.empty())
    out +=
        format("; %s beside %s size, and %s off by a few roundings of it at most",
               by_rounding == 1 ? "one answer hardly varies" : format("%zu answers hardly vary", by_rounding).c_str(),
               by_rounding == 1 ? "its" : "their", by_rounding == 1 ? "is" : "are");
  if (moved && outside.empty()) {
    const auto far = std::max_element(outputs.begin(), outputs.end(), [](const auto& a, const auto& b) {
      return (a.model_moves > 0 ? a.difference.relative : 0) < (b.model_moves > 0 ? b.difference.relative : 0);
    });
    out += format(
        "; %s more than that off, by up to %.3g of the range, as the model's own answer moves by %.3g by one rounding "
        "of its inputs and weights, and each value that the engine keeps on the way is within its own error",
        moved == 1 ? "one answer is" : format("%zu answers are", moved).c_str(), far->difference.relative,
        far->model_moves);
  }
  if (peer_off && outside.empty())
    out += format("; of %s ONNX Runtime's is the inexact one: ours is within the budget against the float64 reference",
                  counted(static_cast<int64_t>(peer_off), "output").c_str());
  if (stored && outside.empty()) {
    double most = 0;
    for (const OutputVerdict& o : outputs) most = std::max(most, o.stored_moves);
    out += format("; %s right by the model with its weights rounded to %s, which moves its answer by up to %.3g%s",
                  stored == 1 ? "one answer is" : format("%zu answers are", stored).c_str(),
                  std::string(dtype_name(precision)).c_str(), most,
                  against == kOnnxRuntime ? ", and ONNX Runtime's by the model's own" : "");
  }
  if (!empty_shapes.empty() && outside.empty()) out += "; " + empty_shapes;
  if (!draws.empty())
    out += "; '" + draws + "' draws random numbers, the same in every run and in the float64 reference" +
           (against == kOnnxRuntime ? ", and ONNX Runtime draws others" : "");
  if (weights_checked) out += "; " + counted(weights_checked, "weight") + " intact";
  if (!bisected.empty()) out += "; " + bisected;
  return out;
}

std::string verification_json(const Verification& v) {
  JsonWriter w;
  w.begin_object()
      .field("model", v.path)
      .field("against", v.against)
      .field("max_error", v.max_error)
      .field("precision", std::string(dtype_name(v.precision)))
      .field("rounded_weights", v.rounded)
      .field("weights_checked", v.weights_checked)
      .field("compared", v.compared)
      .field("both_nan", v.both_nan);
  if (!v.draws.empty()) w.field("draws", v.draws);
  w.key("outputs").begin_array();
  for (const OutputVerdict& o : v.outputs) {
    w.begin_object().field("seed", o.seed).field("output", o.output).field("type", o.type).field("inside", o.inside);
    write_difference(w, o.difference);
    if (o.of_change && std::isfinite(*o.of_change)) w.field("of_change", *o.of_change);
    if (o.of_change && !std::isfinite(*o.of_change)) w.key("of_change").null();
    if (o.followed) w.field("followed", o.followed).field("ties", o.ties);
    if (o.model_moves > 0) w.field("model_moves", o.model_moves);
    if (o.peer_moves > 0) w.field("peer_moves", o.peer_moves);
    if (o.peer_near) w.field("peer_near", true);
    if (o.reference_moves > 0) w.field("reference_moves", o.reference_moves);
    if (o.own_error) w.field("own_error", *o.own_error);
    if (o.peer_error) w.field("peer_error", *o.peer_error).field("peer_is_off", o.peer_is_off);
    if (o.stored_moves > 0) w.field("stored_moves", o.stored_moves);
    w.end_object();
  }
  w.end_array();
  if (v.bisect) {
    w.key("bisect").begin_array();
    for (const StepVerdict& s : *v.bisect)
      w.begin_object()
          .field("step", static_cast<int64_t>(s.step))
          .field("name", s.name)
          .field("kernel", s.kernel)
          .field("checked", s.checked)
          .field("error_over_bound", s.error)
          .field("why", s.why)
          .end_object();
    w.end_array();
  }
  return w.field("passed", v.passed).end_object().take();
}

}  // namespace peri::judge
