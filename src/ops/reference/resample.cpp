// Coordinates and weights of resampling. Coordinates of `nearest` are computed in float, as deployed models do: the
// choice of the nearest neighbour must not depend on more digits than the scales have.
#include "ops/reference/resample.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace peri::ops {
namespace {

template <size_t N>
Status one_of(const std::string& word, const char* attribute, const char* const (&known)[N]) {
  std::string list;
  for (const char* k : known) {
    if (word == k) return Ok{};
    list += (list.empty() ? "" : ", ") + std::string(k);
  }
  return invalid("%s is unknown", attribute).expecting("one of " + list).but_found(word);
}

// x in the input for output element o; T is the arithmetic.
template <class T>
T coordinate(const std::string& mode, const AxisGeometry& g, int64_t o) {
  const T x = static_cast<T>(o), scale = static_cast<T>(g.scale), in = static_cast<T>(g.in), width = scale * in;
  const T half = static_cast<T>(0.5), one = 1;
  if (mode == "asymmetric") return x / scale;
  if (mode == "align_corners") return width == one ? 0 : x * (in - one) / (width - one);
  if (mode == "pytorch_half_pixel") return g.out > 1 ? (x + half) / scale - half : 0;
  if (mode == "tf_half_pixel_for_nn") return (x + half) / scale;
  if (mode == "half_pixel_symmetric") {
    const T adjustment = static_cast<T>(g.out) / width;
    return in / 2 * (one - adjustment) + (x + half) / scale - half;
  }
  if (mode == "tf_crop_and_resize") {
    const T start = static_cast<T>(g.start), end = static_cast<T>(g.end);
    return g.out > 1 ? start * (in - one) + x * (end - start) * (in - one) / (width - one)
                     : half * (start + end) * (in - one);
  }
  return (x + half) / scale - half;
}

int64_t nearest(const std::string& mode, double x, double scale) {
  const double low = std::floor(x), rest = x - low;
  if (rest == 0) return static_cast<int64_t>(low);
  bool up = false;
  if (mode == "round_prefer_floor") up = rest > 0.5;
  if (mode == "round_prefer_ceil") up = rest >= 0.5;
  if (mode == "ceil") up = true;
  if (mode == "simple") up = scale < 1;
  return static_cast<int64_t>(low) + up;
}

double cubic(double a, double x) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// Weights of the elements around x, which may lie outside the input still.
std::vector<Tap> spread(const Sampling& s, double x, double scale) {
  const bool is_cubic = s.mode == "cubic";
  const double shrink = s.antialias ? std::min(scale, 1.0) : 1.0, support = (is_cubic ? 2 : 1) / shrink;
  const double base = std::ceil(x) - 1,
               ratio = x - base;  // in (0, 1]: the left one of two equally near ones comes first
  const int64_t first = static_cast<int64_t>(std::floor(-support)) + 1, last = 1 - first;
  std::vector<Tap> taps;
  double total = 0;
  for (int64_t k = first; k <= last; ++k) {
    const double at = (static_cast<double>(k) - ratio) * shrink;
    const double weight = is_cubic ? cubic(s.cubic_a, at) : std::max(0.0, 1 - std::fabs(at));
    taps.push_back({static_cast<int64_t>(base) + k, weight});
    total += weight;
  }
  if (s.antialias)
    for (Tap& t : taps) t.weight /= total;
  if (!is_cubic && !s.antialias) {  // the element beyond the edge of a cell bounds what a rounded coordinate may see
    if (ratio < 1e-3) taps.insert(taps.begin(), {static_cast<int64_t>(base) - 1, 0});
    if (ratio > 1 - 1e-3) taps.push_back({static_cast<int64_t>(base) + 2, 0});
  }
  return taps;
}

// Brings taps into the input: repeated edges, or left out with the rest made to sum to one.
void confine(const Sampling& s, int64_t in, std::vector<Tap>& taps) {
  if (s.exclude_outside) {
    double total = 0;
    for (Tap& t : taps) {
      if (t.index < 0 || t.index >= in) t.weight = 0;
      total += t.weight;
    }
    for (Tap& t : taps) t.weight /= total;
  }
  std::vector<Tap> merged;
  for (Tap t : taps) {
    t.index = std::clamp<int64_t>(t.index, 0, in - 1);
    if (!merged.empty() && merged.back().index == t.index) {
      merged.back().weight += t.weight;
    } else {
      merged.push_back(t);
    }
  }
  taps = std::move(merged);
}

}  // namespace

Result<Sampling> sampling_of(const ir::Node& node) {
  Sampling s{node.s("mode", "nearest"),
             node.s("coordinate_transformation_mode", "half_pixel"),
             node.s("nearest_mode", "round_prefer_floor"),
             node.f("cubic_coeff_a", -0.75),
             node.i("exclude_outside") != 0,
             node.i("antialias") != 0};
  PERI_TRY(one_of(s.mode, "mode", {"nearest", "linear", "cubic"}));
  PERI_TRY(one_of(s.nearest, "nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"}));
  PERI_TRY(one_of(s.coordinates, "coordinate_transformation_mode",
                  {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                   "tf_crop_and_resize", "tf_half_pixel_for_nn"}));
  if (s.antialias && s.mode == "nearest")
    return invalid("antialias has no meaning for nearest").expecting("mode linear or cubic").but_found("nearest");
  return s;
}

int64_t scaled_extent(int64_t in, double scale) {
  const double v = std::floor(static_cast<double>(static_cast<float>(in) * static_cast<float>(scale)));
  return v < 0 || v > 0x1p62 ? -1 : static_cast<int64_t>(v);
}

AxisTaps axis_taps(const Sampling& s, const AxisGeometry& g) {
  AxisTaps a;
  a.begin.push_back(0);
  for (int64_t o = 0; o < g.out; ++o) {
    if (g.whole) {
      a.taps.push_back({o, 1});
      a.outside.push_back(0);
      a.begin.push_back(a.taps.size());
      continue;
    }
    const double x = s.mode == "nearest" ? static_cast<double>(coordinate<float>(s.coordinates, g, o))
                                         : coordinate<double>(s.coordinates, g, o);
    std::vector<Tap> taps;
    if (s.mode == "nearest") {
      taps.push_back({std::clamp<int64_t>(nearest(s.nearest, x, g.scale), 0, g.in - 1), 1});
    } else {
      taps = spread(s, x, g.scale);
      confine(s, g.in, taps);
      a.reach.push_back(std::fabs(x) + 1 +
                        static_cast<double>(g.in) *
                            (s.coordinates == "tf_crop_and_resize" || s.coordinates == "half_pixel_symmetric"));
    }
    a.outside.push_back(s.coordinates == "tf_crop_and_resize" && (x < 0 || x > static_cast<double>(g.in - 1)));
    a.taps.insert(a.taps.end(), taps.begin(), taps.end());
    a.begin.push_back(a.taps.size());
  }
  return a;
}

}  // namespace peri::ops
