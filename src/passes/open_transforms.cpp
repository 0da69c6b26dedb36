// Pass open_transforms: Fourier transforms of known lengths become products with constant matrices, one or two each,
// and those of the frames of a signal become convolutions, for which there are kernels.
#include <algorithm>
#include <numeric>

#include "passes/entry.hpp"
#include "passes/fourier/fourier.hpp"
#include "passes/fourier/frames.hpp"

namespace peri::passes {
namespace {

// Frames overlap, so that many share the matrix: 128 MiB, a frame of 4,096 elements and half its bins.
constexpr int64_t kMaxFrameWeights = int64_t{1} << 25;
// Of the matrix from half a spectrum to a real signal: 32 MiB, a signal of 2,048 elements and some more.
constexpr int64_t kMaxSignalWeights = int64_t{1} << 23;
// How many frames a signal of unknown length is taken to have: a second of speech.
constexpr int64_t kFramesUnknown = 100;

std::optional<int64_t> number_of(const ir::Value* v) {
  const auto all = v ? numbers_of(v) : std::nullopt;
  return all && all->size() == 1 ? std::optional((*all)[0]) : std::nullopt;
}

bool is_real_or_complex(const Dim& d) { return d.is_const(1) || d.is_const(2); }

// Axes `a` and `b` of `rank` change places.
std::vector<int64_t> exchanged(size_t rank, size_t a, size_t b) {
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[a], perm[b]);
  return perm;
}

Result<bool> open_dft(Rewriter& w, ir::Node* n) {
  Shape x = *n->in(0)->type.shape, y = *n->out()->type.shape;
  const auto axis = n->in(2) ? number_of(n->in(2)) : std::optional<int64_t>(-2);
  if (!axis || x.size() < 2 || !is_real_or_complex(x.back()) || !is_real_or_complex(y.back())) return false;
  const bool real = y.back().is_const(1);  // the inverse of half the bins
  const auto of = static_cast<size_t>(wrap_axis(*axis, x.size()));
  const size_t at = x.size() - 2;
  if (of > at || !x[of].is_const() || !y[of].is_const()) return false;
  const int64_t in = x[of].value(), width = x.back().value(), bins = y[of].value();
  const auto given = n->in(1) ? number_of(n->in(1)) : std::optional<int64_t>(real ? bins : in);
  if (!given || *given < 1 || in < 1 || bins < 1 || std::max(in, bins) > kMaxFourierWeights) return false;
  const Fourier f = {in, width, *given, bins, n->i("inverse") != 0};
  int64_t lines = 1;
  for (size_t k = 0; k <= at; ++k)
    if (k != of && x[k].is_const() && x[k].value() < kMaxFourierWeights / lines)
      lines *= std::max<int64_t>(1, x[k].value());
  const auto steps = real ? signal_in_two_steps(in, bins, lines) : in_two_steps(f, lines);
  if (!steps && (real ? in > kMaxSignalWeights / 2 / bins : f.weights() > kMaxFourierWeights)) return false;
  w.standing_for({n});
  const std::vector<int64_t> perm = exchanged(x.size(), of, at);
  ir::Value* v = n->in(0);
  if (of != at) {
    PERI_ASSIGN(v, w.transpose(v, perm, n->out()));
    std::swap(y[of], y[at]);
  }
  PERI_ASSIGN(v, real && steps ? real_signal_in_two_steps(w, bins, *steps, v, y, n->out())
                 : real        ? real_signal(w, in, bins, v, y, n->out())
                 : steps       ? two_products(w, f, *steps, v, y, n->out())
                               : one_product(w, f, v, y, n->out()));
  if (of != at) {
    PERI_ASSIGN(v, w.transpose(v, perm, n->out()));
  }
  w.replace(n->out(), v);
  return true;
}

// Real frames in the shape y, of a signal x [batch, samples, 1] or [batch, samples], by two products each.
Result<ir::Value*> two_products_of_frames(Rewriter& w, const ir::Node* n, const Fourier& f, const TwoSteps& steps,
                                          int64_t step, const Shape& y) {
  ir::Value* signal = n->in(0);
  if (const Shape& x = *signal->type.shape; x.size() == 2) {
    PERI_ASSIGN(signal, w.reshape(signal, {x[0], x[1], Dim(1)}, signal));
  }
  PERI_ASSIGN(ir::Value * frames, frames_of(w, signal, f.length, step, y[1], n->out()));
  if (n->in(2)) {
    PERI_ASSIGN(frames, w.make("mul", {frames, n->in(2)}, {}, n->out()));
  }
  return two_products(w, f, steps, frames, y, n->out());
}

Result<bool> open_stft(Rewriter& w, ir::Node* n) {
  Shape x = *n->in(0)->type.shape;
  if (x.size() == 2) x.push_back(Dim(1));
  const Shape y = *n->out()->type.shape;
  const auto step = number_of(n->in(1));
  const ir::Value* window = n->in(2);
  if (!step || *step < 1 || (window && !window->constant) || !is_real_or_complex(x[2]) || !y[2].is_const())
    return false;
  const auto given = n->in(3) ? number_of(n->in(3)) : window ? std::optional(window->constant->numel()) : std::nullopt;
  if (!given || *given < 1) return false;
  const int64_t frame = *given, width = x[2].value(), bins = y[2].value();
  if (std::max(frame, bins) > kMaxFrameWeights || (window && window->constant->numel() != frame)) return false;
  const Fourier f = {frame, width, frame, bins, false};
  const int64_t frames = y[1].is_const() ? y[1].value() : kFramesUnknown;
  if (width == 1 && frame / std::gcd(frame, *step) <= kMaxFrameSlices)
    if (const auto steps = in_two_steps(f, std::clamp<int64_t>(frames, 1, kMaxFourierWeights))) {
      w.standing_for({n});
      PERI_ASSIGN(ir::Value * made, two_products_of_frames(w, n, f, *steps, *step, y));
      w.replace(n->out(), made);
      return true;
    }
  if (f.weights() > kMaxFrameWeights) return false;
  std::vector<float> factors;
  for (int64_t bin = 0; bin < bins; ++bin)
    for (int64_t to = 0; to < 2; ++to)
      for (int64_t from = 0; from < width; ++from)
        for (int64_t k = 0; k < frame; ++k)
          factors.push_back(static_cast<float>(fourier_factor(k, bin, frame, false, from, to) *
                                               (window ? window->constant->f64(k) : 1.0)));
  Tensor t = Tensor::of_f32({bins * 2, width, frame}, factors);
  w.standing_for({n});
  ir::Value* signal = nullptr;
  if (width == 1) {
    PERI_ASSIGN(signal, w.reshape(n->in(0), {x[0], Dim(1), x[1]}, n->in(0)));
  } else {
    PERI_ASSIGN(signal, w.transpose(n->in(0), {0, 2, 1}, n->in(0)));
  }
  PERI_ASSIGN(ir::Value * made, w.make("conv", {signal, w.graph().add_constant(n->name, std::move(t))},
                                       {{"strides", std::vector<int64_t>{*step}}}, n->out()));
  PERI_ASSIGN(made, w.transpose(made, {0, 2, 1}, n->out()));
  PERI_ASSIGN(made, w.reshape(made, y, n->out()));
  w.replace(n->out(), made);
  return true;
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op != "dft" && n->op != "stft") return false;
  const ir::Value *x = n->in(0), *y = n->out();
  if (x->type.dtype != DType::kF32 || !w.sized_by_inputs(*x->type.shape) || !w.sized_by_inputs(*y->type.shape))
    return false;
  return n->op == "dft" ? open_dft(w, n) : open_stft(w, n);
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "open_transforms", rule); }

}  // namespace

extern const Entry open_transforms_entry;
const Entry open_transforms_entry{{
    .name = "open_transforms",
    .contract =
        "No dft of float32 is left whose length is known and whose matrix has at most 4 million elements, 8 million "
        "where its results are real: it is a matmul with that matrix, or two with smaller ones where its length has "
        "two "
        "factors and that is less work, between transposes unless it is along the axis before the last. The latter "
        "hold for lengths up to a million. No stft with a constant window whose matrix has at most "
        "32 million is left: it is a convolution of the signal with the matrix under the window, or, of a real signal, "
        "two matmuls of its frames, joined from at most 32 slices of the signal's blocks, where that is less work. It "
        "stands before lift_windows.",
    .follows = {"fold_constants"},
    .run = run,
    .examples =
        {{"the sum and the difference of two",
          "graph { input x: f32[batch,2,1]; const a: i64[1] = [1]; y = dft(x, _, a); output y }",
          "graph { input x: f32[batch,2,1]; const s: i64[2] = [-1, 2]; const w: f32[2,4] = [1.0, 0.0, 1.0, 0.0, "
          "1.0, 0.0, -1.0, 0.0]; const t: i64[3] = [-1, 2, 2]; r = reshape(x, s); m = matmul(r, w); y = "
          "reshape(m, t); output y }"},
         {"along another axis", "graph { input x: f32[2,batch,1]; const a: i64[1] = [0]; y = dft(x, _, a); output y }",
          "graph { input x: f32[2,batch,1]; const s: i64[2] = [-1, 2]; const w: f32[2,4] = [1.0, 0.0, 1.0, 0.0, "
          "1.0, 0.0, -1.0, 0.0]; u = transpose(x) {perm=[1, 0, 2]}; r = reshape(u, s); m = matmul(r, w); const t: "
          "i64[3] = [-1, 2, 2]; v = reshape(m, t); y = transpose(v) {perm=[1, 0, 2]}; output y }"},
         {"in float64 it stays", "graph { input x: f64[2,3,1]; y = dft(x); output y }",
          "graph { input x: f64[2,3,1]; y = dft(x); output y }"}},
}};

}  // namespace peri::passes
