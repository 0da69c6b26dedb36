// Two runs of the reference, exact and rounded, with the output between them.
#include "judge/whole.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "exec/region/region_payload.hpp"
#include "ir/bodies.hpp"
#include "judge/pieces.hpp"
#include "tune/expected.hpp"

namespace peri::judge {
namespace {

bool is_narrow(DType t) { return t == DType::kF16 || t == DType::kBF16; }

// A cast that rounds a float to one of 16 bits or more is none: float64 rounds there too, and what crosses from one
// number to the next is as small as one.
bool jumps_at(const ir::Node& n) {
  const ops::OpDef* op = ops::find(n.op);
  if (!op || !op->jumps || !n.in(0) || !is_float(n.in(0)->type.dtype)) return false;
  const DType made = n.out()->type.dtype;
  return !(op->converts && is_float(made) && dtype_bits(made) >= 16);
}

// Values that depend on an op whose result jumps.
std::unordered_set<const ir::Value*> behind_jumps(const ir::Graph& graph) {
  std::unordered_set<const ir::Value*> out;
  for (const ir::Node* n : graph.nodes) {
    bool jumps = jumps_at(*n);
    for (const auto& [key, body] : ir::bodies_of(*n))
      ir::for_each_node(*body, [&](const ir::Node& inner) { jumps = jumps || jumps_at(inner); });
    for (const ir::Value* v : n->inputs) jumps = jumps || (v && out.contains(v));
    if (jumps)
      for (const ir::Value* v : n->outputs) out.insert(v);
  }
  return out;
}

// The answer of the model with values rounded: each to its type, and each in arithmetic of float32, where what the
// model keeps in 16 bits is rounded by its casts alone. The two are one where it has no such values.
struct Rounded {
  std::vector<ops::RefTensor> stored, computed;
  DType coarsest = DType::kF32;  // of the types of its values
  const std::vector<ops::RefTensor>& in_float32() const { return computed.empty() ? stored : computed; }
};
Result<Rounded> rounded_answer(const ir::Graph& graph, std::span<const ops::RefTensor> in, int threads) {
  Rounded r;
  for (const auto& v : graph.values())
    if (is_narrow(v->type.dtype) && unit_roundoff(v->type.dtype) > unit_roundoff(r.coarsest))
      r.coarsest = v->type.dtype;
  PERI_ASSIGN(r.stored, ops::run_reference(graph, in, {0, threads, true, {}}));
  if (r.coarsest != DType::kF32) {
    PERI_ASSIGN(r.computed, ops::run_reference(graph, in, {unit_roundoff(DType::kF32), threads, true, {}}));
  }
  return r;
}

double spread_of(const ops::RefTensor& exact, const ops::RefTensor& rounded) {
  double spread = 0;
  for (size_t k = 0; k < exact.f.size(); ++k)
    if (std::isfinite(exact.f[k]) && std::isfinite(rounded.f[k]))
      spread = std::max(spread, std::fabs(exact.f[k] - rounded.f[k]));
  return spread;
}

// What a floating output may be off by everywhere.
struct Room {
  double sure = 0;      // a share of its range
  double rounding = 0;  // multiples of what rounding does to it
  double noise = 0;     // what rounding does to it, the most of all ways
  double most = 0;      // that multiples may allow
  double bound() const { return std::max(sure, std::min(rounding, most)); }
  // Rounding moves it too far for its types to decide what is right.
  bool undecided() const { return noise > most / 2; }
  void add(double moved, double times) {
    noise = std::max(noise, moved);
    rounding = std::max(rounding, times * moved);
  }
};

Room room_of(const ops::RefTensor& exact, const Rounded& rounded, size_t k, DType precision) {
  double range = 0;
  for (size_t at = 0; at < exact.f.size(); ++at)
    if (std::isfinite(exact.f[at]) && std::isfinite(rounded.stored[k].f[at]))
      range = std::max(range, std::fabs(exact.f[at]));
  const double share = std::max({kShareOfRange, 8 * unit_roundoff(exact.dtype), 8 * unit_roundoff(precision),
                                 8 * unit_roundoff(rounded.coarsest)});
  Room room;
  room.sure = std::max(share * range, 0x1p-126);
  room.most = kMaxShareOfSpread * spread_of_values(exact.f);
  room.add(spread_of(exact, rounded.in_float32()[k]), kTimesRounding);
  if (rounded.coarsest != DType::kF32) room.add(spread_of(exact, rounded.stored[k]), kTimesStored);
  return room;
}

// Holds one floating output; "" or where it is outside.
std::string judge_floats(const ops::RefTensor& exact, const ops::RefTensor& rounded, const Tensor& got, double bound,
                         double* worst, bool* any) {
  for (size_t k = 0; k < exact.f.size(); ++k) {
    const double want = exact.f[k], have = got.f64(static_cast<int64_t>(k));
    const bool agreed = std::isfinite(want) == std::isfinite(rounded.f[k]) &&
                        (std::isfinite(want) || std::isnan(want) == std::isnan(rounded.f[k]));
    *any = *any || agreed;
    if (!agreed || want == have || (std::isnan(want) && std::isnan(have))) continue;
    const double error = std::fabs(want - have);
    if (!(error <= bound)) return format("at %zu it is %.9g, float64 says %.9g +- %.3g", k, have, want, bound);
    *worst = std::max(*worst, error / bound);
  }
  return "";
}

// Radii that grow along a deep graph soon allow everything; up to this share of the largest value on the way they still
// say that an answer is what cancelling left.
constexpr double kMaxRadius = 1e-3;

// Whether output `k` lies within the radii that rounding on the way to it allows, and these say something.
Result<bool> within_radii(const ir::Graph& graph, std::span<const ops::RefTensor> in, size_t k, const Tensor& got,
                          double largest, int threads) {
  PERI_ASSIGN(auto bounded, ops::run_reference(graph, in, {unit_roundoff(DType::kF32), threads, false, {}}));
  for (int64_t at = 0; at < got.numel(); ++at)
    if (!(bounded[k].r(at) <= kMaxRadius * largest)) return false;
  tune::Expected expected;
  expected.out.push_back(std::move(bounded[k]));
  return tune::compare(expected, {&got, 1}).ok();
}

// Whether arithmetic in float32 decides output `k` no better than by what it is off: answers for which every op is
// moved at random within its own error lie as far apart, wherever it is outside of `bound`. An error that a kernel
// makes is far below its bound, so such answers reach further than it.
bool undecided(const ir::Graph& graph, std::span<const ops::RefTensor> in, size_t k, const ops::RefTensor& exact,
               const Tensor& got, double bound, int threads) {
  constexpr uint64_t kAnswers = 16;  // 12 at random, counted: benchmarks/results/2026-11-23_choice_counts.md
  std::vector<double> low = exact.f, high = exact.f;
  for (uint64_t seed = 1; seed <= kAnswers; ++seed) {
    ops::RefOptions options{unit_roundoff(DType::kF32), threads, false, {}};
    options.shake = seed;
    const auto answer = ops::run_reference(graph, in, options);
    if (!answer.ok() || (*answer)[k].dims != exact.dims) return false;  // an excuse that cannot be made is none
    for (size_t at = 0; at < low.size(); ++at) {
      low[at] = std::min(low[at], (*answer)[k].f[at]);
      high[at] = std::max(high[at], (*answer)[k].f[at]);
    }
  }
  for (size_t at = 0; at < low.size(); ++at) {
    const double have = got.f64(static_cast<int64_t>(at));
    const bool nan = std::isnan(exact.f[at]) && std::isnan(have);
    // Of thousands of elements some have all answers on one side of the exact one.
    const double room = bound + (high[at] - low[at]);
    if (!nan && !(have == exact.f[at]) && !(have >= low[at] - room && have <= high[at] + room)) return false;
  }
  return true;
}

}  // namespace

bool all_finite(const Tensor& t) {
  if (!is_float(t.dtype())) return true;
  if (t.dtype() == DType::kF32) return std::ranges::all_of(t.as<float>(), [](float v) { return std::isfinite(v); });
  for (int64_t k = 0; k < t.numel(); ++k)
    if (!std::isfinite(t.f64(k))) return false;
  return true;
}

namespace {

std::string judge_exact(const ops::RefTensor& exact, const Tensor& got) {
  for (int64_t k = 0; k < got.numel(); ++k) {
    const size_t at = static_cast<size_t>(k);
    const bool same =
        exact.dtype == DType::kString ? exact.s[at] == got.string_values()[at] : exact.i[at] == got.i64(k);
    if (!same) return format("it differs at %zu", at);
  }
  return "";
}
}  // namespace

double flops_at(const ir::Graph& graph, const DimBinding& sizes) {
  const auto bound = exec::bind_region(graph, sizes, true);
  if (!bound.ok()) return HUGE_VAL;
  double flops = 0;
  for (const ir::Node* n : bound->nodes) {
    for (const ir::Value* v : n->outputs)
      if (!v->type.known() || !is_const(*v->type.shape)) return HUGE_VAL;
    flops += ops::cost_of(*n).flops;
  }
  return flops;
}

double elements_at(const ir::Graph& graph, const DimBinding& sizes) {
  const auto bound = exec::bind_region(graph, sizes, true);
  if (!bound.ok()) return 0;
  double out = 0;
  for (const ir::Node* n : bound->nodes)
    for (const ir::Value* v : n->outputs) {
      if (!v->type.known() || !is_const(*v->type.shape)) return 0;
      double elements = 1;
      for (const Dim& d : *v->type.shape) elements *= static_cast<double>(d.value());
      out += elements;
    }
  return out;
}

Result<Magnitudes> magnitudes_of(const ir::Graph& graph, std::span<const ops::RefTensor> in, int threads) {
  ir::Graph all = graph.clone();
  std::vector<bool> sums;
  all.outputs.clear();
  all.output_names.clear();
  for (const ir::Node* n : all.nodes) {
    const ops::OpDef* op = ops::find(n->op);
    for (ir::Value* v : n->outputs) {
      if (!is_float(v->type.dtype)) continue;
      all.mark_output(v, v->name);
      sums.push_back(op && !op->elementwise && !op->moves);
    }
  }
  Magnitudes m;
  if (sums.empty()) return m;
  PERI_ASSIGN(const auto values, ops::run_reference(all, in, {0, threads, false, {}}));
  for (size_t k = 0; k < values.size(); ++k)
    for (const double v : values[k].f) {
      const double size = std::fabs(v);
      if (size <= tune::kNearOverflow)
        m.largest = std::max(m.largest, size);
      else if (sums[k] && std::isfinite(size))
        m.near_overflow = true;
    }
  return m;
}

namespace {
// Why output `k`, which is outside its bound, is no fault; "" where it is one.
Result<std::string> excuse(const ir::Graph& graph, std::span<const ops::RefTensor> in, size_t k,
                           const ops::RefTensor& exact, const Tensor& got, double bound, int threads) {
  PERI_ASSIGN(const Magnitudes way, magnitudes_of(graph, in, threads));
  PERI_ASSIGN(const bool possible, within_radii(graph, in, k, got, way.largest, threads));
  if (possible)
    return std::string("cancels to less than its rounding: it is within the radii that grow along the graph");
  if (!all_finite(got) && way.near_overflow)
    return std::string("depends on values beyond 1e30, which overflow in one order of a sum only");
  if (!exact.floating()) return std::string();
  return undecided(graph, in, k, exact, got, bound, threads)
             ? std::string("is not decided by float32: answers within the round-off of each op differ by as much")
             : std::string();
}
}  // namespace

Result<std::vector<ops::RefTensor>> narrow_reference(const ir::Graph& graph, std::span<const ops::RefTensor> in,
                                                     DType type, int threads) {
  ops::RefOptions options{0, threads, true, {}};
  options.narrowest = type;
  return ops::run_reference(graph, in, options);
}

double spread_of_values(std::span<const double> values) {
  constexpr size_t kFew = 16;  // so few may all lie close together: their distance from 0 counts too
  double low = values.size() < kFew ? 0 : INFINITY, high = values.size() < kFew ? 0 : -INFINITY;
  for (const double v : values) {
    if (!std::isfinite(v)) continue;
    low = std::min(low, v);
    high = std::max(high, v);
  }
  return high > low ? high - low : 0;
}

namespace {
// A model and its answers in float64 and rounded, while outputs are held against them.
struct Whole {
  const ir::Graph& graph;
  std::span<const ops::RefTensor> in;
  int threads;
  DType precision, values;
  std::vector<ops::RefTensor> exact = {};
  Rounded rounded = {};
  // Made where they are needed: every value rounded to `values`; exact, of weights rounded to `precision`.
  std::vector<ops::RefTensor> narrow = {}, of_stored = {};

  // Where output `k`, which is behind a jump, parts from float64 by more than rounding; "": nowhere.
  std::string parts(size_t k, const Tensor& got, double* error) const {
    double e = 0;
    bool any = exact[k].f.empty();
    const std::string why = exact[k].floating() ? judge_floats(exact[k], rounded.stored[k], got,
                                                               room_of(exact[k], rounded, k, precision).sure, &e, &any)
                                                : judge_exact(exact[k], got);
    if (why.empty()) *error = std::max(*error, e);
    return why;
  }

  // Holds output `k`, which is outside, of an engine that rounds weights alone.
  Status judge_stored(size_t k, const Tensor& got, const std::string& name, Room* room, double* error, std::string* why,
                      WholeVerdict* v) {
    if (of_stored.empty()) {
      PERI_ASSIGN(const ir::Graph model, with_stored_weights(graph, precision, threads));
      PERI_ASSIGN(of_stored, ops::run_reference(model, in, {0, threads, false, {}}));
    }
    if (of_stored[k].dims != exact[k].dims) return Ok{};  // sizes that hang on a weight's value
    bool any = false;
    *error = 0;
    const double moved = spread_of(exact[k], of_stored[k]);
    if (judge_floats(of_stored[k], rounded.stored[k], got, room->bound(), error, &any).empty()) {
      why->clear();
      v->stored = name + format(" is held against the model with its weights rounded to %s, which moves it by %.2g",
                                std::string(dtype_name(precision)).c_str(), moved);
      return Ok{};
    }
    *error = 0;
    room->add(moved, kTimesNarrow);
    *why = judge_floats(exact[k], rounded.stored[k], got, room->bound(), error, &any);
    return Ok{};
  }

  // Holds output `k`, which is floating and behind no jump.
  Status judge(size_t k, const Tensor& got, const std::string& name, WholeVerdict* v) {
    double error = 0;
    bool any = exact[k].f.empty();  // that could be held
    Room room = room_of(exact[k], rounded, k, precision);
    const ops::RefTensor* sure = &rounded.stored[k];
    std::string why = judge_floats(exact[k], *sure, got, room.bound(), &error, &any);
    const bool stores = is_narrow(values);
    if (!why.empty() && !stores && is_narrow(precision)) PERI_TRY(judge_stored(k, got, name, &room, &error, &why, v));
    if (!why.empty() && stores) {
      if (narrow.empty()) {
        PERI_ASSIGN(narrow, narrow_reference(graph, in, values, threads));
      }
      room.add(spread_of(exact[k], narrow[k]), kTimesNarrow);
      any = false;
      sure = &narrow[k];
      why = judge_floats(exact[k], *sure, got, room.bound(), &error, &any);
    }
    if (why.empty() && any) {
      v->error = std::max(v->error, error);
      return Ok{};
    }
    if (why.empty()) {
      v->left_out = name + " is beyond what the types of the model hold";
      return Ok{};
    }
    const auto excused = excuse(graph, in, k, exact[k], got, room.bound(), threads);
    std::string left_out = excused.ok() ? *excused : "";
    const double most = std::max(room.sure, room.rounding);
    if (left_out.empty() && room.undecided() && judge_floats(exact[k], *sure, got, most, &error, &any).empty())
      left_out = format(
          "is not decided by its types: rounding each %s to them moves it by %.2g, and %.2g is a share "
          "of its spread that a wrong answer has too",
          stores || !is_narrow(precision) ? "value" : "weight", room.noise, room.most);
    if (left_out.empty())
      v->wrong = name + ": " + why;
    else
      v->left_out = name + " " + left_out;
    return Ok{};
  }
};
}  // namespace

Result<WholeVerdict> judge_whole(const ir::Graph& graph, std::span<const Tensor> inputs, std::span<const Tensor> got,
                                 int threads, DType precision, DType values) {
  std::vector<ops::RefTensor> in;
  for (const Tensor& t : inputs) in.push_back(ops::to_ref(t));
  Whole whole{graph, in, threads, precision, values};
  PERI_ASSIGN(whole.exact, ops::run_reference(graph, in, {0, threads, false, {}}));
  PERI_ASSIGN(whole.rounded, rounded_answer(graph, in, threads));
  const auto jumpy = behind_jumps(graph);
  WholeVerdict v;
  for (size_t k = 0; k < whole.exact.size() && v.wrong.empty(); ++k) {
    const ops::RefTensor& exact = whole.exact[k];
    const std::string name = "output '" + graph.output_names[k] + "'";
    if (exact.dims != got[k].dims()) {
      v.wrong = name + " has another shape than the model says";
    } else if (jumpy.contains(graph.outputs[k])) {
      if (const std::string why = whole.parts(k, got[k], &v.error); !why.empty()) v.parted.push_back(k);
    } else if (exact.floating()) {
      PERI_TRY(whole.judge(k, got[k], name, &v));
    } else if (const std::string why = judge_exact(exact, got[k]); why.empty()) {
      v.error = std::max(v.error, 0.0);
    } else {
      const auto excused = excuse(graph, in, k, exact, got[k], 0, threads);
      const std::string left_out = excused.ok() ? *excused : "";
      (left_out.empty() ? v.wrong : v.left_out) = name + (left_out.empty() ? ": " + why : " " + left_out);
    }
  }
  return v;
}

}  // namespace peri::judge
