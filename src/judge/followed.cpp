// The model is cut at the values that the engine keeps; the reference computes each piece, perturbed at ties.
#include "judge/followed.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>

#include "base/rng.hpp"
#include "base/stop.hpp"
#include "exec/region/region_payload.hpp"
#include "judge/choices.hpp"
#include "judge/pieces.hpp"
#include "judge/steps.hpp"
#include "judge/whole.hpp"
#include "ops/entry.hpp"
#include "tune/expected.hpp"

namespace peri::judge {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 28;  // of all values that are kept, each in its own type
// An error that a kernel makes is far below its bound, so about half of these cross the tie that it crossed, but for
// every fourth, which is not at random. Where so few in a row reach nothing more, what is left is no tie: of 65,536 one
// is missed.
constexpr uint64_t kMaxShakes = 64, kFewShakes = 21;
constexpr double kMaxChoiceFlops = 1e9;  // of a piece whose choice is computed as a whole

// Of a value that is not the model's, though it has its name: a pass gave it another shape.
constexpr const char* kAnotherType = "it has another type than the model says";

double radius_at(const ops::RefTensor& want, size_t at) {
  return want.r(static_cast<int64_t>(at)) + unit_roundoff(want.dtype) * std::fabs(want.f[at]) +
         (want.dtype == DType::kF16 ? 0x1p-24 : 0x1p-126);
}

bool within(const ops::RefTensor& want, const Tensor& got, int64_t k) {
  const size_t at = static_cast<size_t>(k);
  if (want.dtype == DType::kString) return want.s[at] == got.string_values()[at];
  if (!want.floating()) return want.i[at] == got.i64(k);
  const double w = want.f[at], g = got.f64(k);
  if (w == g || (std::isnan(w) && std::isnan(g)) || std::fabs(w - g) <= radius_at(want, at)) return true;
  return std::isinf(g) && std::signbit(g) == std::signbit(w) && tune::may_overflow(want, at);
}

// What shaken answers reach at one element that is not the exact one.
struct Reach {
  int64_t at = 0;
  double low = 0, high = 0;
  bool reached = false;

  void take(const ops::RefTensor& want, const ops::RefTensor& answer, const Tensor& got) {
    const size_t k = static_cast<size_t>(at);
    if (want.dtype == DType::kString || want.dtype == DType::kBool || want.dtype == DType::kI64) {
      reached = reached || within(answer, got, at);  // a name or a place: what lies between two is neither
      return;
    }
    const double v = answer.floating() ? answer.f[k] : static_cast<double>(answer.i[k]), g = got.f64(at);
    const double radius = want.floating() ? radius_at(want, k) : 0;
    low = std::min(low, v);
    high = std::max(high, v);
    reached =
        reached || (std::isnan(g) && std::isnan(v)) || (high - low > radius && g >= low - radius && g <= high + radius);
  }
};

std::string text_at(const ops::RefTensor& want, const Tensor& got, int64_t at) {
  const size_t k = static_cast<size_t>(at);
  if (want.floating())
    return format("at %lld it is %.9g, float64 says %.9g +- %.3g", static_cast<long long>(at), got.f64(at), want.f[k],
                  radius_at(want, k));
  if (want.dtype == DType::kString) return format("it differs at %lld", static_cast<long long>(at));
  return format("at %lld it is %lld, float64 says %lld", static_cast<long long>(at),
                static_cast<long long>(got.i64(at)), static_cast<long long>(want.i[k]));
}

// Elements of a value that are held: all (empty), or so many, both ends and a part that the seed takes.
std::vector<int64_t> held_elements(int64_t count, int64_t most) {
  constexpr int64_t kEnds = 16;
  if (most <= 0 || count <= most) return {};
  std::set<int64_t> at;
  for (int64_t k = 0; k < kEnds; ++k) at.insert({k, count - 1 - k});
  Rng rng(static_cast<uint64_t>(count));
  while (std::ssize(at) < most) at.insert(rng.below(count));
  return {at.begin(), at.end()};
}

// Weights of the model that the engine keeps in fewer bits, as the model has them; what is known of them is rounded.
struct Weights {
  Known exact;
  DType stored = DType::kF32;
};

// Arguments of a piece: rounded weights, those of the model, or with a seed those of the model moved at random. By
// twice the rounding, since of several weights that are one in the engine (a folded batch normalization) the product is
// rounded, and an error that adds up from many is to be reached.
enum class Take : uint8_t { kRounded, kExact, kMoved };
std::vector<ops::RefTensor> arguments_of(const Piece& piece, const Known& known, const Weights& weights, Take take,
                                         uint64_t seed) {
  std::vector<ops::RefTensor> in;
  for (const ir::Value* v : piece.arguments) {
    const auto exact = weights.exact.find(v);
    const bool rounded = exact == weights.exact.end() || take == Take::kRounded;
    in.push_back(ops::to_ref(rounded ? known.at(v) : exact->second));
    if (rounded || take != Take::kMoved) continue;
    Rng rng(seed * 1000003 + static_cast<uint64_t>(in.size()));
    const double u = unit_roundoff(weights.stored), least = weights.stored == DType::kF16 ? 0x1p-25 : 0;
    for (double& w : in.back().f) w += 2 * (2 * rng.uniform() - 1) * std::max(u * std::fabs(w), least);
  }
  return in;
}

// One value against what the piece makes of the arguments: how many elements are ties; `why` where one is none.
// `unbounded`: how many are within a radius that is not finite.
Result<int64_t> prove(const Piece& piece, const Known& known, const Weights& weights, const Tensor& got,
                      const FollowTerms& terms, int64_t* unbounded, std::string* why) {
  const bool narrowed = std::any_of(piece.arguments.begin(), piece.arguments.end(),
                                    [&](const ir::Value* v) { return weights.exact.contains(v); });
  const std::vector<ops::RefTensor> in = arguments_of(piece, known, weights, Take::kRounded, 0);
  ops::RefOptions options{unit_roundoff(DType::kF32), terms.threads, false,
                          held_elements(got.numel(), terms.positions)};
  PERI_ASSIGN(const auto exact, ops::run_reference(piece.graph, in, options));
  const ops::RefTensor& want = exact[0];
  if (want.dims != got.dims() || want.dtype != got.dtype()) {
    *why = kAnotherType;
    return 0;
  }
  std::vector<Reach> open;
  const std::vector<int64_t> held = options.positions;
  const int64_t count = held.empty() ? got.numel() : std::ssize(held);
  for (int64_t n = 0; n < count; ++n) {
    const int64_t at = held.empty() ? n : held[static_cast<size_t>(n)];
    if (within(want, got, at)) {
      *unbounded += want.floating() && std::isfinite(want.f[static_cast<size_t>(at)]) &&
                    !std::isfinite(radius_at(want, static_cast<size_t>(at)));
      continue;
    }
    const double w = want.floating()                ? want.f[static_cast<size_t>(at)]
                     : want.dtype == DType::kString ? 0
                                                    : static_cast<double>(want.i[static_cast<size_t>(at)]);
    open.push_back({at, w, w});
  }
  const auto answer_at_open = [&](Take take, uint64_t seed) {
    options.shake = seed;
    options.positions.clear();
    for (const Reach& r : open) options.positions.push_back(r.at);
    return narrowed ? ops::run_reference(piece.graph, arguments_of(piece, known, weights, take, seed), options)
                    : ops::run_reference(piece.graph, in, options);
  };
  if (narrowed && !open.empty()) {  // what is small, or in bytes, is not rounded
    const auto answer = answer_at_open(Take::kExact, 0);
    if (answer.ok() && (*answer)[0].dims == want.dims)
      std::erase_if(open, [&](const Reach& r) { return within((*answer)[0], got, r.at); });
  }
  const int64_t ties = std::ssize(open);
  if (open.empty()) return 0;
  uint64_t last = 0;  // seed that reached something
  for (uint64_t seed = 1; (piece.jumps || narrowed) && seed <= kMaxShakes && !open.empty(); ++seed) {
    if (seed > last + kFewShakes) break;
    const auto answer = answer_at_open(seed % 2 == 0 ? Take::kRounded : Take::kMoved, seed);
    if (!answer.ok() || (*answer)[0].dims != want.dims) continue;
    for (Reach& r : open) r.take(want, (*answer)[0], got);
    if (std::erase_if(open, [](const Reach& r) { return r.reached; }) > 0) last = seed;
  }
  if (piece.jumps && !open.empty() && flops_at(piece.graph, {}) <= kMaxChoiceFlops) {  // one of many that are equal
    const auto answer = choice_toward(piece.graph, in, got, options);
    if (answer.ok() && answer->dims == want.dims)
      std::erase_if(open, [&](const Reach& r) { return within(*answer, got, r.at); });
  }
  if (!open.empty())
    *why = format("%lld of %lld elements are no tie: ", static_cast<long long>(open.size()),
                  static_cast<long long>(count)) +
           text_at(want, got, open[0].at);
  return ties;
}

// Float32 weights that nodes read, where the engine keeps weights in fewer bits; rounded ones go to `known`.
Result<Weights> rounded_weights(const ir::Graph& model, std::span<const ir::Node* const> way, DType stored, int threads,
                                Known* known) {
  Weights w;
  if (unit_roundoff(stored) <= unit_roundoff(DType::kF32)) return w;
  w.stored = stored;
  for (const ir::Node* n : way)
    for (size_t port = 0; port < n->inputs.size(); ++port) {
      const ir::Value* v = n->inputs[port];
      if (w.exact.contains(v) || !is_weight(*n, port)) continue;
      PERI_ASSIGN(Tensor exact, fixed_value(model, v, threads));
      PERI_ASSIGN(Tensor rounded, as_stored(exact, stored));
      w.exact.emplace(v, std::move(exact));
      known->emplace(v, std::move(rounded));
    }
  return w;
}

// The model's value that a buffer of this name may hold: a pass that makes a value anew adds a suffix (".1") where its
// name is taken. Whether it does, the reference says.
const ir::Value* named_like(const ir::Graph& graph, std::string_view name) {
  if (const ir::Value* v = graph.find(name)) return v;
  const size_t end = name.find_last_not_of("0123456789");
  const bool suffixed = end != std::string_view::npos && end + 1 < name.size() && name[end] == '.';
  return suffixed ? graph.find(name.substr(0, end)) : nullptr;
}

// Values of `graph` that the session's steps write on the way, as a run leaves them; the run's answers too.
struct Kept {
  std::map<std::string, Tensor, std::less<>> values;
  std::vector<Tensor> answers;
};

Result<Kept> kept_values(const ir::Graph& graph, std::span<const ir::Node* const> nodes, runtime::Session& session,
                         std::span<const Tensor> inputs) {
  std::unordered_set<const ir::Value*> way;
  for (const ir::Node* n : nodes) way.insert(n->outputs.begin(), n->outputs.end());
  const plan::Program& program = session.engine().program();
  Kept kept;
  int64_t elements = 0;
  session.set_step_hook([&](size_t step, bool before) {
    if (before || elements > kMaxElements) return;
    auto results = results_of(session, step);
    if (!results.ok()) return;  // what cannot be read is not kept
    size_t at = 0;
    for (const int32_t b : program.steps[step].writes) {
      if (b < 0) continue;
      Tensor& t = (*results)[at++];
      const std::string& name = program.buffers[static_cast<size_t>(b)].name;
      const ir::Value* v = named_like(graph, name);
      if (!v || !way.contains(v) || v->type.dtype != t.dtype()) continue;
      elements += t.numel();
      if (v->name == name)
        kept.values.insert_or_assign(name, std::move(t));
      else
        kept.values.emplace(v->name, std::move(t));
    }
  });
  auto out = session.run(inputs);
  session.set_step_hook({});
  PERI_TRY(out);
  if (elements > kMaxElements)
    return refused("the values on the way are too many to keep")
        .expecting(format("at most %lld", static_cast<long long>(kMaxElements)));
  kept.answers = std::move(*out);
  return kept;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.dims() != b.dims()) return false;
  if (a.dtype() == DType::kString) return std::ranges::equal(a.string_values(), b.string_values());
  return std::ranges::equal(a.bytes(), b.bytes());
}

// What an engine keeps on the way to values of the model, proven in the order of the model.
struct Follower {
  runtime::Session& session;
  const FollowTerms& terms;
  ir::Graph model = {};
  std::vector<const ir::Value*> ends = {};  // that are wanted
  std::vector<const ir::Node*> nodes = {};  // on the way
  Kept kept = {};
  Known given = {}, known = {};  // inputs and rounded weights; with what was proven
  Weights weights = {};
  std::unordered_map<const ir::Value*, std::string> unproven = {};  // what was not, and why

  Follower(runtime::Session& s, const FollowTerms& t) : session(s), terms(t) {}

  // Runs the session; `wanted` are values of the model at the sizes of the inputs.
  Status start(const ir::Graph& graph, std::span<const Tensor> inputs,
               const std::function<std::vector<ir::Value*>(const ir::Graph&)>& wanted) {
    std::vector<std::vector<int64_t>> dims;
    for (const Tensor& t : inputs) dims.push_back(t.dims());
    PERI_ASSIGN(const DimBinding binding, plan::bind_dims(session.engine().program(), dims));
    PERI_ASSIGN(model, exec::bind_region(graph, binding, true));
    for (const ir::Value* v : wanted(model)) ends.push_back(v);
    nodes = way_to(model, ends, {});
    PERI_ASSIGN(kept, kept_values(model, nodes, session, inputs));
    for (size_t n = 0; n < inputs.size(); ++n) given.emplace(model.inputs[n], inputs[n]);
    PERI_ASSIGN(weights, rounded_weights(model, nodes, session.engine().program().precision, terms.threads, &given));
    known = given;
    return Ok{};
  }

  Status prove_all(Followed* f) {
    for (const ir::Node* n : nodes)
      for (const ir::Value* v : n->outputs) {
        const auto it = kept.values.find(v->name);
        if (it == kept.values.end()) continue;
        if (stop_asked()) return Error(ErrorKind::kCancelled, "the reference was stopped").at_node(n->name);
        if (terms.progress) terms.progress(v->name);
        std::string why;
        int64_t unbounded = 0;
        PERI_ASSIGN(const int64_t ties,
                    prove(piece_of(model, v, known), known, weights, it->second, terms, &unbounded, &why));
        if (!why.empty()) {
          const bool off = why != kAnotherType || std::ranges::find(ends, v) != ends.end();
          if ((off && f->off == 0) || f->unproven == 0) f->first = "'" + v->name + "': " + why;
          ++f->unproven;
          f->off += off;
          unproven.emplace(v, why);
          continue;
        }
        ++f->values;
        f->ties += ties;
        f->unbounded += unbounded;
        known.emplace(v, it->second);
      }
    return Ok{};
  }

  // Elements that were rounded another way than in float64, where the float that is rounded is kept: computed from what
  // was rounded before alone.
  Result<int64_t> units() const {
    Known rounded = given;
    int64_t count = 0;
    for (const ir::Node* n : nodes)
      for (const ir::Value* v : n->outputs) {
        const auto it = known.find(v);
        if (!jumps_on(*n) || it == known.end() || given.contains(v)) continue;
        const Piece piece = piece_of(model, v, rounded);
        PERI_ASSIGN(const auto exact,
                    ops::run_reference(piece.graph, arguments_of(piece, rounded, weights, Take::kRounded, 0),
                                       {unit_roundoff(DType::kF32), terms.threads, false, {}}));
        if (exact[0].dims == it->second.dims())
          for (int64_t at = 0; at < it->second.numel(); ++at) count += !within(exact[0], it->second, at);
        rounded.emplace(v, it->second);
      }
    return count;
  }
};
}  // namespace

Result<Followed> follow(const ir::Graph& graph, size_t k, runtime::Session& session, std::span<const Tensor> inputs,
                        const Tensor& got, const FollowTerms& terms) {
  Follower way(session, terms);
  PERI_TRY(way.start(graph, inputs, [&](const ir::Graph& model) { return std::vector{model.outputs[k]}; }));
  Followed f;
  if (!same_bits(way.kept.answers[k], got)) {
    f.wrong = "a second run of the same inputs gave other bits";
    return f;
  }
  const ir::Value* const wanted = way.model.outputs[k];
  way.kept.values.insert_or_assign(wanted->name, got);
  PERI_TRY(way.prove_all(&f));
  f.at_elements = way.unproven.contains(wanted);
  if (!way.known.contains(wanted)) f.wrong = f.unproven > 0 ? f.first : "no step computes it";
  if (f.wrong.empty() && f.ties == 0 && terms.positions == 0) {
    PERI_ASSIGN(f.ties, way.units());
  }
  return f;
}

Result<std::string> first_unfollowed(const ir::Graph& graph, std::span<const std::string> names,
                                     runtime::Session& session, std::span<const Tensor> inputs,
                                     const FollowTerms& terms, std::string* why) {
  Follower way(session, terms);
  PERI_TRY(way.start(graph, inputs, [&](const ir::Graph& model) {
    std::vector<ir::Value*> wanted;
    for (const std::string& name : names)
      if (ir::Value* const v = model.find(name)) wanted.push_back(v);
    return wanted;
  }));
  Followed f;
  PERI_TRY(way.prove_all(&f));
  for (const std::string& name : names)
    if (const auto it = way.unproven.find(way.model.find(name)); it != way.unproven.end()) {
      *why = it->second;
      return name;
    }
  return std::string();
}

bool behind_jump(const ir::Graph& graph, const ir::Value* value) {
  const auto way = way_to(graph, {&value, 1}, {});
  return std::any_of(way.begin(), way.end(), [](const ir::Node* n) { return jumps_on(*n); });
}

}  // namespace peri::judge
