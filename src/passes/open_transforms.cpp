// Pass open_transforms: Fourier transforms of known, short lengths become products with a constant matrix, and those of
// the frames of a signal become convolutions, for which there are kernels.
#include <cmath>
#include <numbers>

#include "passes/entry.hpp"
#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {

constexpr int64_t kMaxWeights = int64_t{1} << 22;  // 16 MiB; a fast transform is for what is longer

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

// What element k, part `from` (0 real, 1 imaginary) adds to bin `bin`, part `to`, in a transform of length n.
double factor(int64_t k, int64_t bin, int64_t n, bool inverse, int64_t from, int64_t to) {
  const Turn t(k % n * bin % n, n);
  const double sine = inverse ? t.sine : t.sine == 0 ? 0 : -t.sine;
  if (from == to) return t.cosine;
  return to == 1 ? sine : sine == 0 ? 0 : -sine;
}

std::optional<int64_t> number_of(const ir::Value* v) {
  const auto all = v ? numbers_of(v) : std::nullopt;
  return all && all->size() == 1 ? std::optional((*all)[0]) : std::nullopt;
}

bool is_real_or_complex(const Dim& d) { return d.is_const(1) || d.is_const(2); }

Result<bool> open_dft(Rewriter& w, ir::Node* n) {
  const Shape x = *n->in(0)->type.shape, y = *n->out()->type.shape;
  const auto axis = n->in(2) ? number_of(n->in(2)) : std::optional<int64_t>(-2);
  const size_t at = x.size() - 2;
  if (!axis || (*axis != -2 && *axis != static_cast<int64_t>(at)) || !x[at].is_const() || !y[at].is_const())
    return false;
  if (!is_real_or_complex(x.back())) return false;
  const int64_t in = x[at].value(), width = x.back().value(), bins = y[at].value();
  const auto given = n->in(1) ? number_of(n->in(1)) : std::optional<int64_t>(in);
  if (!given || *given < 1 || in < 1 || in * width * bins * 2 > kMaxWeights) return false;
  const int64_t length = *given;
  const bool inverse = n->i("inverse") != 0;
  std::vector<float> factors;
  for (int64_t k = 0; k < in; ++k)
    for (int64_t from = 0; from < width; ++from)
      for (int64_t bin = 0; bin < bins; ++bin)
        for (int64_t to = 0; to < 2; ++to)
          factors.push_back(k >= length ? 0.0F
                                        : static_cast<float>(factor(k, bin, length, inverse, from, to) /
                                                             (inverse ? static_cast<double>(length) : 1)));
  Tensor t = Tensor::of_f32({in * width, bins * 2}, factors);
  w.standing_for({n});
  Shape flat(x.begin(), x.end() - 2);
  flat.push_back(Dim(in * width));
  PERI_ASSIGN(ir::Value * line, w.reshape(n->in(0), flat, n->in(0)));
  PERI_ASSIGN(ir::Value * made, w.make("matmul", {line, w.graph().add_constant(n->name, std::move(t))}, {}, n->out()));
  PERI_ASSIGN(made, w.reshape(made, y, n->out()));
  w.replace(n->out(), made);
  return true;
}

Result<bool> open_stft(Rewriter& w, ir::Node* n) {
  const Shape x = *n->in(0)->type.shape, y = *n->out()->type.shape;
  const auto step = number_of(n->in(1));
  const ir::Value* window = n->in(2);
  if (!step || *step < 1 || (window && !window->constant) || !is_real_or_complex(x[2]) || !y[2].is_const())
    return false;
  const auto given = n->in(3) ? number_of(n->in(3)) : window ? std::optional(window->constant->numel()) : std::nullopt;
  if (!given || *given < 1) return false;
  const int64_t frame = *given, width = x[2].value(), bins = y[2].value();
  if (frame * width * bins * 2 > kMaxWeights || (window && window->constant->numel() != frame)) return false;
  std::vector<float> factors;
  for (int64_t bin = 0; bin < bins; ++bin)
    for (int64_t to = 0; to < 2; ++to)
      for (int64_t from = 0; from < width; ++from)
        for (int64_t k = 0; k < frame; ++k)
          factors.push_back(
              static_cast<float>(factor(k, bin, frame, false, from, to) * (window ? window->constant->f64(k) : 1.0)));
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
    .contract = "No dft of float32 along the last axis of a signal is left whose length is known and whose matrix has "
                "at most 4 "
                "million elements: it is a matmul with that matrix; and no stft with such a matrix and a constant "
                "window: it is a "
                "convolution of the signal with the matrix under the window. It stands before lift_windows.",
    .follows = {"fold_constants"},
    .run = run,
    .examples =
        {{"the sum and the difference of two",
          "graph { input x: f32[batch,2,1]; const a: i64[1] = [1]; y = dft(x, _, a); output y }",
          "graph { input x: f32[batch,2,1]; const s: i64[2] = [-1, 2]; const w: f32[2,4] = [1.0, 0.0, 1.0, 0.0, "
          "1.0, 0.0, -1.0, 0.0]; const t: i64[3] = [-1, 2, 2]; r = reshape(x, s); m = matmul(r, w); y = "
          "reshape(m, t); output y }"},
         {"along another axis it stays",
          "graph { input x: f32[2,2,3,1]; const a: i64[1] = [1]; y = dft(x, _, a); output y }",
          "graph { input x: f32[2,2,3,1]; const a: i64[1] = [1]; y = dft(x, _, a); output y }"}},
}};

}  // namespace peri::passes
