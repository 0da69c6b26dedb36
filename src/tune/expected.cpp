// Positions of expensive results, the budget of the reference, and comparisons.
#include "tune/expected.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/rng.hpp"
#include "kernels/entry.hpp"
#include "ops/shape/broadcast.hpp"

namespace peri::tune {

namespace {
// Positions side by side that are drawn together: a reference computes neighbours for little more than one.
constexpr int64_t kRun = 16;

void ascending(std::vector<int64_t>& positions) {
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
}

// Seeded positions of an output, ascending: runs of neighbours at both ends of it and of each axis, and anywhere.
std::vector<int64_t> sample_positions(const std::vector<int64_t>& dims, int64_t count, uint64_t seed) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  const int64_t row = dims.empty() ? 1 : dims.back();
  Rng rng(seed);
  std::vector<int64_t> out;
  // The run that holds position p, within its row.
  const auto take = [&](int64_t p) {
    const int64_t begin = p / row * row, first = std::max(begin, std::min(p, begin + row - kRun));
    for (int64_t j = 0; j < std::min(kRun, row); ++j) out.push_back(first + j);
  };
  for (int64_t p = 0; p < std::min<int64_t>(64, count / 16); p += kRun) {
    take(p);
    take(n - 1 - p);
  }
  int64_t stride = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    const int64_t d = dims[axis];
    for (int64_t k = 0; k < std::min<int64_t>(48, count / 64); ++k) {
      const int64_t p = rng.below(n), at = p / stride % d;
      take(p + ((k & 1 ? d - 1 : 0) - at) * stride);
    }
    stride *= d;
  }
  for (ascending(out); static_cast<int64_t>(out.size()) < count; ascending(out))
    for (int64_t k = static_cast<int64_t>(out.size()); k < count; k += kRun) take(rng.below(n));
  return out;
}

// How far an answer may be from `want` at an element: its radius, the rounding to its type, and that type's smallest
// step near zero (subnormal results).
double radius_at(const ops::RefTensor& want, size_t at) {
  return want.r(static_cast<int64_t>(at)) + unit_roundoff(want.dtype) * std::fabs(want.f[at]) +
         (want.dtype == DType::kF16 ? 0x1p-24 : 0x1p-126);
}

double numel_of(const ir::Value& v) {
  double n = 1;
  for (int64_t d : kernels::dims_of(v)) n *= static_cast<double>(d);
  return n;
}

// Flops of the reference: `whole` for everything; at p positions `fixed` + p * `each`.
struct ReferenceCost {
  double whole = 0, fixed = 0, each = 0;
};

// As the reference pulls positions back through the region, here a few of them as a probe.
ReferenceCost reference_cost(const ir::Graph& region, uint64_t seed) {
  ReferenceCost c;
  const std::vector<int64_t> dims = kernels::dims_of(*region.outputs[0]);
  const bool probed = region.outputs.size() == 1 && numel_of(*region.outputs[0]) > 2 * kMinPositions;
  const std::vector<int64_t> probe = probed ? sample_positions(dims, kMinPositions, seed) : std::vector<int64_t>();
  std::unordered_map<const ir::Value*, std::vector<int64_t>> wanted;  // empty: all of it
  wanted[region.outputs[0]] = probe;
  for (size_t k = region.nodes.size(); k-- > 0;) {
    const ir::Node& n = *region.nodes[k];
    const double flops = std::max(ops::cost_of(n).flops, numel_of(*n.out()));
    c.whole += flops;
    const ops::OpDef* op = ops::find(n.op);
    const auto it = wanted.find(n.out());
    const bool some = n.outputs.size() == 1 && it != wanted.end() && !it->second.empty();
    if (some)
      c.each += flops / numel_of(*n.out()) * static_cast<double>(it->second.size()) / static_cast<double>(probe.size());
    else
      c.fixed += flops;
    for (size_t port = 0; port < n.inputs.size(); ++port) {
      const ir::Value* v = n.inputs[port];
      if (!v || !v->producer) continue;
      std::vector<int64_t> needed;
      if (!some || !op || !op->pull || !op->pull(n, port, wanted.at(n.out()), &needed)) needed.clear();
      const auto [have, fresh] = wanted.emplace(v, needed);
      if (!fresh && (needed.empty() || have->second.empty())) have->second.clear();
      if (!fresh && needed.size() > have->second.size() && !have->second.empty()) have->second = needed;
    }
  }
  return c;
}
// Seeded positions of a result whose lines the reference computes each as a whole, ascending: of as many lines as the
// budget allows, the first and the last one among them. Empty: too few lines fit, or there are no lines.
std::vector<int64_t> line_positions(const ir::Graph& region, int64_t count, uint64_t seed) {
  if (region.nodes.size() != 1 || region.outputs.size() != 1) return {};
  const ir::Node& n = *region.nodes[0];
  const ops::OpDef* const op = ops::find(n.op);
  if (!op || !op->line_axes) return {};
  const size_t output =
      static_cast<size_t>(std::find(n.outputs.begin(), n.outputs.end(), region.outputs[0]) - n.outputs.begin());
  const std::vector<int64_t> dims = kernels::dims_of(*region.outputs[0]);
  const std::vector<size_t> axes = op->line_axes(n, output);
  int64_t lines = 1;
  for (const size_t axis : axes) lines *= dims[axis];
  const double each = ops::cost_of(n).flops / static_cast<double>(lines);
  const int64_t fit = std::max<int64_t>(kMinLines, static_cast<int64_t>(kPositionFlops / each));
  if (fit >= lines || static_cast<double>(fit) * each > kMaxReferenceFlops) return {};
  std::vector<int64_t> chosen = {0, lines - 1};
  Rng rng(seed);
  while (static_cast<int64_t>(chosen.size()) < fit) chosen.push_back(rng.below(lines));
  // Positions as anywhere, each moved to one of the lines.
  const std::vector<int64_t> strides = ops::strides_of(dims);
  std::vector<int64_t> out = sample_positions(dims, count, seed);
  for (size_t k = 0; k < out.size(); ++k) {
    int64_t line = chosen[k / kRun % chosen.size()];
    for (size_t a = axes.size(); a-- > 0; line /= dims[axes[a]]) {
      const int64_t at = out[k] / strides[axes[a]] % dims[axes[a]];
      out[k] += (line % dims[axes[a]] - at) * strides[axes[a]];
    }
  }
  ascending(out);
  return out;
}
// Whether an op whose result jumps takes a float that the region computes.
bool jumps_inside(const ir::Graph& region) {
  for (const ir::Node* n : region.nodes) {
    const ops::OpDef* op = ops::find(n->op);
    if (!op || !op->jumps) continue;
    for (const ir::Value* v : n->inputs)
      if (v && v->producer && is_float(v->type.dtype)) return true;
  }
  return false;
}

}  // namespace

// Answers that differ from the exact one by less than round-off in each op, as ranges by output and element.
struct Expected::Ties {
  const ir::Graph& region;
  std::vector<ops::RefTensor> in;
  double u;
  int threads;
  bool made = false;
  std::vector<std::vector<double>> low = {}, high = {};
  std::vector<std::vector<bool>> nan = {};

  // An error that a kernel really makes is far below its bound, so a tie that it crosses is crossed by about half of
  // these but for every fourth, which is not at random: 16 of them miss one in 4,096. Counted:
  // benchmarks/results/2026-11-23_choice_counts.md.
  Status make(const Expected& e) {
    constexpr uint64_t kAnswers = 16;
    made = true;
    for (const ops::RefTensor& t : e.out) {
      low.emplace_back(t.f.begin(), t.f.end());
      if (!t.floating()) low.back().assign(t.i.begin(), t.i.end());
      high.push_back(low.back());
      nan.emplace_back(low.back().size(), false);
    }
    for (uint64_t seed = 1; seed <= kAnswers; ++seed) {
      ops::RefOptions options{u, threads, false, e.positions};
      options.shake = seed;
      PERI_ASSIGN(const auto answer, ops::run_reference(region, in, options));
      for (size_t k = 0; k < answer.size(); ++k)
        for (size_t at = 0; at < low[k].size() && answer[k].dims == e.out[k].dims; ++at) {
          const double v = answer[k].floating() ? answer[k].f[at] : static_cast<double>(answer[k].i[at]);
          nan[k][at] = nan[k][at] || std::isnan(v);
          low[k][at] = std::min(low[k][at], v);
          high[k][at] = std::max(high[k][at], v);
        }
    }
    return Ok{};
  }
};

namespace {
// Whether an answer outside its radius is one that a right kernel may give: these disagree by more than the radius, and
// it lies among them.
bool is_tie(const Expected& e, size_t output, size_t at, double got) {
  if (!e.ties) return false;
  Expected::Ties& t = *e.ties;
  if (!t.made && !t.make(e).ok()) return false;
  const ops::RefTensor& want = e.out[output];
  if (at >= t.low[output].size()) return false;
  const double low = t.low[output][at], high = t.high[output][at];
  const double radius = want.floating() ? radius_at(want, at) : 0;
  if (std::isnan(got)) return t.nan[output][at];
  return high - low > radius && got >= low - radius && got <= high + radius;
}
}  // namespace

Result<Expected> expected_at(const ir::Graph& region, std::span<const Tensor> arguments, int threads,
                             std::vector<int64_t> positions) {
  Expected e;
  e.positions = std::move(positions);
  std::vector<ops::RefTensor> in;
  for (const Tensor& t : arguments) in.push_back(ops::to_ref(t));
  double u = unit_roundoff(DType::kF32);
  for (const ir::Value* v : region.outputs)
    if (is_float(v->type.dtype)) u = std::min(u, std::max(unit_roundoff(v->type.dtype), unit_roundoff(DType::kF64)));
  PERI_ASSIGN(e.out, ops::run_reference(region, in, {u, threads, false, e.positions}));
  if (jumps_inside(region)) e.ties = std::make_shared<Expected::Ties>(region, std::move(in), u, threads);
  return e;
}

namespace {
// Each output by itself, with all of the region's arguments.
Result<Expected> expected_of_each(const ir::Graph& region, std::span<const Tensor> arguments, int threads,
                                  uint64_t seed, int64_t most) {
  Expected e;
  for (size_t k = 0; k < region.outputs.size(); ++k) {
    auto alone = std::make_shared<ir::Graph>(region.clone());
    alone->outputs = {alone->outputs[k]};
    alone->output_names = {alone->output_names[k]};
    alone->erase_dead();
    PERI_ASSIGN(Expected one, make_expected(*alone, arguments, threads, seed + k, most));
    one.region = std::move(alone);
    e.each.push_back(std::move(one));
  }
  return e;
}
}  // namespace

int64_t position_count(const Expected& e) {
  int64_t n = static_cast<int64_t>(e.positions.size());
  for (const Expected& one : e.each) n += position_count(one);
  return n;
}

Result<Expected> make_expected(const ir::Graph& region, std::span<const Tensor> arguments, int threads, uint64_t seed,
                               int64_t most) {
  const double n = numel_of(*region.outputs[0]);
  if (n == 0) return expected_at(region, arguments, threads, {});
  const ReferenceCost c = reference_cost(region, seed);
  if (region.outputs.size() > 1 && c.whole > kMaxWholeFlops)
    return expected_of_each(region, arguments, threads, seed, most);
  const int64_t in_lines = std::min<int64_t>(most, static_cast<int64_t>(n) / 2);
  if (std::vector<int64_t> some =
          c.whole > kMaxWholeFlops ? line_positions(region, in_lines, seed) : std::vector<int64_t>();
      !some.empty())
    return expected_at(region, arguments, threads, std::move(some));
  const double fit =
      c.each > 0 ? std::max(kPositionFlops - c.fixed, kPositionFlops / 2) / c.each : static_cast<double>(most);
  const int64_t count = static_cast<int64_t>(std::clamp(fit, double{kMinPositions}, static_cast<double>(most)));
  const double some = c.fixed + c.each * static_cast<double>(count);
  const bool can = n > 2 * static_cast<double>(count);
  if (c.whole <= kMaxWholeFlops || ((!can || some > c.whole / 2) && c.whole <= kMaxReferenceFlops))
    return expected_at(region, arguments, threads, {});
  if (!can || some > kMaxReferenceFlops)
    return refused("its reference takes %.0f Gflop, which is too much", (can ? some : c.whole) / 1e9);
  return expected_at(region, arguments, threads, sample_positions(kernels::dims_of(*region.outputs[0]), count, seed));
}

std::vector<int64_t> part_positions(int64_t count, uint64_t seed) {
  const int64_t stretch = std::clamp<int64_t>(count / kMinParts, kPartRun, kPartStretch);
  Rng rng(seed);
  std::vector<int64_t> out;
  for (int64_t begin = 0; begin < count; begin += stretch) {
    const int64_t end = std::min(count, begin + stretch);
    const int64_t first = begin + rng.below(std::max<int64_t>(1, end - begin - kPartRun + 1));
    for (int64_t at = first; at < std::min(end, first + kPartRun); ++at) out.push_back(at);
  }
  return out;
}

std::vector<int64_t> disputed_positions(const Expected& expected, const Tensor& a, const Tensor& b,
                                        std::span<const int64_t> among) {
  constexpr size_t kMaxDisputed = 64;  // each is asked of the reference
  std::vector<int64_t> out;
  const ops::RefTensor& want = expected.out[0];
  double radius = 0;
  for (int64_t at : expected.positions) radius = std::max(radius, want.floating() ? want.r(at) : 0.0);
  const double u = unit_roundoff(want.dtype);
  const std::span<const float> fa = a.dtype() == DType::kF32 ? a.as<float>() : std::span<const float>(),
                               fb = b.dtype() == DType::kF32 ? b.as<float>() : fa;
  // Nearly all elements of 16 bits are the same word, and reading one as a number takes tens of times longer.
  const bool words = want.floating() && dtype_bits(a.dtype()) == 16 && a.dtype() == b.dtype();
  const std::span<const uint16_t> wa = words ? a.as<uint16_t>() : std::span<const uint16_t>(),
                                  wb = words ? b.as<uint16_t>() : wa;
  const int64_t count = among.empty() ? a.numel() : static_cast<int64_t>(among.size());
  for (int64_t n = 0; n < count && out.size() < kMaxDisputed; ++n) {
    const int64_t k = among.empty() ? n : among[static_cast<size_t>(n)];
    const auto at = static_cast<size_t>(k);
    if (words && wa[at] == wb[at]) continue;
    if (!want.floating()) {
      if (a.i64(k) != b.i64(k)) out.push_back(k);
      continue;
    }
    const double x = fa.empty() ? a.f64(k) : fa[at], y = fb.empty() ? b.f64(k) : fb[at];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!(std::fabs(x - y) <= 2 * (radius + u * std::fabs(x)))) out.push_back(k);
  }
  return out;
}

bool may_overflow(const ops::RefTensor& want, size_t at) {
  double largest = std::numeric_limits<float>::max();
  if (want.dtype == DType::kF16) largest = 65504;
  if (want.dtype == DType::kBF16) largest = 0x1.fep127;
  if (want.dtype == DType::kF64) largest = std::numeric_limits<double>::max();
  const double size = std::fabs(want.f[at]), radius = want.r(static_cast<int64_t>(at));
  const bool float_sums = want.dtype == DType::kF32 || want.dtype == DType::kBF16;
  // What is exact has no other order.
  return size + radius > largest || (radius > 0 && float_sums && size > kNearOverflow);
}

namespace {
Status differs(size_t output, int64_t at, const std::string& want, const std::string& got) {
  return Error(ErrorKind::kAccuracy, format("output %zu differs at %lld", output, static_cast<long long>(at)))
      .expecting(want)
      .but_found(got);
}
}  // namespace

Result<double> compare(const Expected& whole, std::span<const Tensor> got) {
  double worst = 0;
  for (size_t k = 0; k < got.size(); ++k) {
    const Expected& expected = expected_of(whole, k);
    const size_t own = whole.each.empty() ? k : 0;
    const ops::RefTensor& want = expected.out[own];
    const bool some = !expected.positions.empty();
    const int64_t count = some ? static_cast<int64_t>(expected.positions.size()) : want.numel();
    for (int64_t n = 0; n < count; ++n) {
      const int64_t at = some ? expected.positions[static_cast<size_t>(n)] : n;
      const size_t i = static_cast<size_t>(at);
      if (want.dtype == DType::kString) {
        if (want.s[i] != got[k].string_values()[i]) return differs(k, at, want.s[i], got[k].string_values()[i]).error();
        continue;
      }
      if (!want.floating()) {
        if (want.i[i] != got[k].i64(at) && !is_tie(expected, own, i, static_cast<double>(got[k].i64(at))))
          return differs(k, at, std::to_string(want.i[i]), std::to_string(got[k].i64(at))).error();
        continue;
      }
      const double w = want.f[i], g = got[k].f64(at);
      if (std::isnan(w) && std::isnan(g)) continue;
      if (w == g) continue;
      const double radius = radius_at(want, i);
      const double error = std::fabs(w - g);
      if (!(error <= radius)) {
        const bool overflow = std::isinf(g) && std::signbit(g) == std::signbit(w) && may_overflow(want, i);
        if (!overflow && !is_tie(expected, own, i, g))
          return differs(k, at, format("%.9g +- %.3g", w, radius), format("%.9g", g)).error();
        continue;
      }
      worst = std::max(worst, error / radius);
    }
  }
  return worst;
}

namespace {
double largest(const Tensor& t) {
  double m = 0;
  for (int64_t k = 0; k < t.numel(); ++k)
    if (const double v = std::fabs(t.f64(k)); std::isfinite(v)) m = std::max(m, v);
  return m;
}
}  // namespace

Result<double> agree(const ir::Graph& region, std::span<const Tensor> a, std::span<const Tensor> b) {
  double terms = 0, worst = 0;
  for (const ir::Node* n : region.nodes) terms += ops::cost_of(*n).flops / std::max(1.0, numel_of(*n->out()));
  for (size_t k = 0; k < a.size(); ++k) {
    const DType type = a[k].dtype();
    const double bound = is_float(type) ? 8 * std::sqrt(std::max(1.0, terms)) * largest(a[k]) *
                                              std::max(unit_roundoff(type), unit_roundoff(DType::kF32))
                                        : 0;
    for (int64_t at = 0; at < a[k].numel(); ++at) {
      if (!is_float(type)) {
        if (a[k].i64(at) != b[k].i64(at))
          return differs(k, at, std::to_string(a[k].i64(at)), std::to_string(b[k].i64(at))).error();
        continue;
      }
      const double x = a[k].f64(at), y = b[k].f64(at), far = std::fabs(x - y);
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      if (!(far <= bound)) return differs(k, at, format("%.9g +- %.3g", x, bound), format("%.9g", y)).error();
      worst = std::max(worst, far / bound);
    }
  }
  return worst;
}

}  // namespace peri::tune
