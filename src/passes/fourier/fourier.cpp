// The matrices of a transform in one product and in two, and which of both is less work.
#include "passes/fourier/fourier.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace peri::passes {
namespace {

// Two products run as seven steps, of which four move every point: what they cost more, in multiplications of a
// product, for each point and for each transform; and what a weight of one product costs where few lines use it.
// Measured: benchmarks/results/2026-11-29_fourier.md.
constexpr double kOfPoint = 1000, kOfSteps = 8e5, kOfWeight = 6;

// cos and sin of 2 pi turn / n, exact where they are whole numbers.
struct Turn {
  double cosine, sine;
  Turn(int64_t turn, int64_t n) {
    constexpr double kQuarters[] = {1, 0, -1, 0, 1};  // cosines of quarter turns
    if (4 * turn % n == 0) {
      cosine = kQuarters[4 * turn / n];
      sine = kQuarters[(4 * turn / n + 3) % 4];
      return;
    }
    const double angle = 2 * std::numbers::pi * static_cast<double>(turn) / static_cast<double>(n);
    cosine = std::cos(angle);
    sine = std::sin(angle);
  }
};

Shape with(const Shape& lead, std::initializer_list<int64_t> dims) {
  Shape s = lead;
  for (const int64_t d : dims) s.push_back(Dim(d));
  return s;
}

std::vector<int64_t> swapped(size_t lead, std::initializer_list<int64_t> last) {
  std::vector<int64_t> perm;
  for (size_t k = 0; k < lead; ++k) perm.push_back(static_cast<int64_t>(k));
  for (const int64_t k : last) perm.push_back(static_cast<int64_t>(lead) + k);
  return perm;
}

int64_t columns_of(const Fourier& f, const TwoSteps& s) { return (f.bins + s.first - 1) / s.first; }

// Element k1 of a line of the first transform to bin j1. Each bin has four values: its real and its imaginary part and,
// times i, minus the imaginary and the real part; the turn of a bin is then a product of elements, c with the first
// two and s with the others, and the sum of both.
Tensor first_matrix(const Fourier& f, const TwoSteps& s) {
  std::vector<float> at(static_cast<size_t>(s.first * f.width * 4 * s.first));
  for (int64_t k = 0, i = 0; k < s.first; ++k)
    for (int64_t from = 0; from < f.width; ++from)
      for (int64_t part = 0; part < 4; ++part)
        for (int64_t bin = 0; bin < s.first; ++bin, ++i) {
          const double v = fourier_factor(k, bin, s.first, f.inverse, from, part == 0 || part == 3 ? 0 : 1);
          at[static_cast<size_t>(i)] = static_cast<float>(part == 2 && v != 0 ? -v : v);
        }
  return Tensor::of_f32({s.first * f.width, 4 * s.first}, at);
}

// [second, 4, first]: the turns of bin j1 of line k2, k2 * j1 parts of `length`.
Tensor turns(const Fourier& f, const TwoSteps& s) {
  std::vector<float> at;
  at.reserve(static_cast<size_t>(4 * f.length));
  for (int64_t line = 0; line < s.second; ++line)
    for (int64_t part = 0; part < 4; ++part)
      for (int64_t bin = 0; bin < s.first; ++bin)
        at.push_back(static_cast<float>(fourier_factor(line, bin, f.length, f.inverse, 0, part < 2 ? 0 : 1)));
  return Tensor::of_f32({s.second, 4 * s.first}, at);
}

Tensor second_matrix(const Fourier& f, const TwoSteps& s) {
  const double whole = f.inverse ? static_cast<double>(f.length) : 1;
  std::vector<float> at;
  for (int64_t k = 0; k < s.second; ++k)
    for (int64_t part = 0; part < 4; ++part)
      for (int64_t bin = 0; bin < columns_of(f, s); ++bin)
        for (int64_t to = 0; to < 2; ++to)
          at.push_back(static_cast<float>(fourier_factor(k, bin, s.second, f.inverse, part % 2, to) / whole));
  return Tensor::of_f32({s.second * 4, columns_of(f, s) * 2}, at);
}

std::optional<TwoSteps> two_steps_of(const Fourier& f) {
  if (f.in != f.length || f.length > kMaxFourierWeights / 4) return std::nullopt;
  TwoSteps best;
  for (int64_t first = 2; first * first <= f.length; ++first)
    if (f.length % first == 0) best = {f.length / first, first};
  if (best.first == 0 || best.first * best.first * 4 * f.width > kMaxFourierWeights) return std::nullopt;
  return best;
}

// What one product with a matrix of so many weights costs for these lines, and two.
double of_one(int64_t weights, int64_t lines) {
  return static_cast<double>(weights) * std::max(static_cast<double>(lines), kOfWeight);
}
double of_two(const Fourier& f, const TwoSteps& s, int64_t lines) {
  const double points = static_cast<double>(lines) * static_cast<double>(f.length);
  const auto of_point = static_cast<double>(4 * s.first * f.width + 8 * columns_of(f, s));
  return points * (of_point + kOfPoint) + kOfSteps;
}

}  // namespace

double fourier_factor(int64_t k, int64_t bin, int64_t n, bool inverse, int64_t from, int64_t to) {
  const Turn t(k % n * bin % n, n);
  const double sine = inverse ? t.sine : t.sine == 0 ? 0 : -t.sine;
  if (from == to) return t.cosine;
  return to == 1 ? sine : sine == 0 ? 0 : -sine;
}

std::optional<TwoSteps> in_two_steps(const Fourier& f, int64_t lines) {
  const std::optional<TwoSteps> steps = two_steps_of(f);
  const bool better = steps && of_one(f.weights(), lines) >= of_two(f, *steps, lines);
  return better || f.weights() > kMaxFourierWeights ? steps : std::nullopt;
}

std::optional<TwoSteps> signal_in_two_steps(int64_t in, int64_t length, int64_t lines) {
  if (in != length / 2 + 1 || length < 4) return std::nullopt;
  const Fourier whole = {length, 2, length, length, true};
  const std::optional<TwoSteps> steps = two_steps_of(whole);
  const double written = static_cast<double>(lines) * static_cast<double>(length) * kOfPoint + kOfSteps;
  return steps && of_one(in * 2 * length, lines) >= of_two(whole, *steps, lines) + written ? steps : std::nullopt;
}

Result<ir::Value*> real_signal(Rewriter& w, int64_t in, int64_t length, ir::Value* x, const Shape& y,
                               const ir::Value* like) {
  std::vector<float> factors;
  factors.reserve(static_cast<size_t>(in * 2 * length));
  for (int64_t bin = 0; bin < in; ++bin)
    for (int64_t from = 0; from < 2; ++from)
      for (int64_t k = 0; k < length; ++k) {
        const bool own_mirror = bin == 0 || 2 * bin == length;  // real, and there once
        const double times = 2 * bin > length || (own_mirror && from == 1) ? 0 : own_mirror ? 1 : 2;
        const double factor = times * fourier_factor(k, bin, length, true, from, 0) / static_cast<double>(length);
        factors.push_back(factor == 0 ? 0.0F : static_cast<float>(factor));
      }
  Tensor t = Tensor::of_f32({in * 2, length}, factors);
  const Shape lead(y.begin(), y.end() - 2);
  PERI_ASSIGN(ir::Value * line, w.reshape(x, with(lead, {in * 2}), x));
  PERI_ASSIGN(ir::Value * made, w.make("matmul", {line, w.graph().add_constant(like->name, std::move(t))}, {}, like));
  return w.reshape(made, y, like);
}

Result<ir::Value*> real_signal_in_two_steps(Rewriter& w, int64_t length, const TwoSteps& s, ir::Value* x,
                                            const Shape& y, const ir::Value* like) {
  const Shape lead(y.begin(), y.end() - 2);
  const auto at = static_cast<int64_t>(lead.size());
  const int64_t mirrored = (length - 1) / 2;  // bins mirrored, ..., 1, conjugate
  PERI_ASSIGN(ir::Value * v, w.make("slice",
                                    {x, w.ints({mirrored}, like->name), w.ints({0}, like->name),
                                     w.ints({at}, like->name), w.ints({-1}, like->name)},
                                    {}, like));
  const std::vector<float> conjugate = {1, -1};
  PERI_ASSIGN(v, w.make("mul", {v, w.graph().add_constant(like->name, Tensor::of_f32({2}, conjugate))}, {}, like));
  PERI_ASSIGN(v, w.make("concat", {x, v}, {{"axis", at}}, like));
  PERI_ASSIGN(v, two_products(w, {length, 2, length, length, true}, s, v, with(lead, {length, 2}), like));
  PERI_ASSIGN(v, w.make("slice",
                        {v, w.ints({0}, like->name), w.ints({1}, like->name), w.ints({at + 1}, like->name),
                         w.ints({1}, like->name)},
                        {}, like));
  return w.reshape(v, y, like);
}

Result<ir::Value*> one_product(Rewriter& w, const Fourier& f, ir::Value* x, const Shape& y, const ir::Value* like) {
  std::vector<float> factors;
  factors.reserve(static_cast<size_t>(f.weights()));
  const double whole = f.inverse ? static_cast<double>(f.length) : 1;
  for (int64_t k = 0; k < f.in; ++k)
    for (int64_t from = 0; from < f.width; ++from)
      for (int64_t bin = 0; bin < f.bins; ++bin)
        for (int64_t to = 0; to < 2; ++to)
          factors.push_back(
              k >= f.length ? 0.0F : static_cast<float>(fourier_factor(k, bin, f.length, f.inverse, from, to) / whole));
  Tensor t = Tensor::of_f32({f.in * f.width, f.bins * 2}, factors);
  const Shape lead(y.begin(), y.end() - 2);
  PERI_ASSIGN(ir::Value * line, w.reshape(x, with(lead, {f.in * f.width}), x));
  PERI_ASSIGN(ir::Value * made, w.make("matmul", {line, w.graph().add_constant(like->name, std::move(t))}, {}, like));
  return w.reshape(made, y, like);
}

Result<ir::Value*> two_products(Rewriter& w, const Fourier& f, const TwoSteps& s, ir::Value* x, const Shape& y,
                                const ir::Value* like) {
  const Shape lead(y.begin(), y.end() - 2);
  const size_t n = lead.size();
  const int64_t columns = columns_of(f, s), bins = columns * s.first;
  const auto constant = [&](Tensor t) { return w.graph().add_constant(like->name, std::move(t)); };
  // Element second * k1 + k2 of a line is element k1 of line k2.
  PERI_ASSIGN(ir::Value * v, w.reshape(x, with(lead, {s.first, s.second, f.width}), like));
  PERI_ASSIGN(v, w.transpose(v, swapped(n, {1, 0, 2}), like));
  PERI_ASSIGN(v, w.reshape(v, with(lead, {s.second, s.first * f.width}), like));
  PERI_ASSIGN(v, w.make("matmul", {v, constant(first_matrix(f, s))}, {}, like));
  PERI_ASSIGN(v, w.make("mul", {v, constant(turns(f, s))}, {}, like));
  PERI_ASSIGN(v, w.reshape(v, with(lead, {s.second * 4, s.first}), like));
  PERI_ASSIGN(v, w.transpose(v, swapped(n, {1, 0}), like));
  PERI_ASSIGN(v, w.make("matmul", {v, constant(second_matrix(f, s))}, {}, like));
  // Bin j1 + first * j2 is bin j2 of line j1.
  PERI_ASSIGN(v, w.reshape(v, with(lead, {s.first, columns, 2}), like));
  PERI_ASSIGN(v, w.transpose(v, swapped(n, {1, 0, 2}), like));
  PERI_ASSIGN(v, w.reshape(v, with(lead, {bins, 2}), like));
  if (bins > f.bins) {
    const auto at = static_cast<int64_t>(n);
    PERI_ASSIGN(v, w.make("slice",
                          {v, w.ints({0}, like->name), w.ints({f.bins}, like->name), w.ints({at}, like->name),
                           w.ints({1}, like->name)},
                          {}, like));
  }
  return w.reshape(v, y, like);
}

}  // namespace peri::passes
