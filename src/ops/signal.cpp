// DFT, STFT and MelWeightMatrix: spectra by their definition, and the triangles that gather a spectrum into mel bins.
// A complex number is an axis of two elements, a real one of one.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/reference/cost.hpp"
#include "ops/reference/dense.hpp"
#include "ops/reference/elements.hpp"
#include "ops/reference/norm.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/shape/indices.hpp"
#include "ops/shape/upgrade.hpp"

namespace peri::ops {
namespace {

// The number in input `port`, which must be known while shapes are inferred.
Result<Dim> length_of(const InferContext& c, size_t port, std::string_view what) {
  const std::vector<Dim>* known = c.elements(port);
  if (!known || known->size() != 1)
    return unsupported("%s must be known before the model runs", std::string(what).c_str())
        .advise("export the model with a constant for it");
  return (*known)[0];
}

Dim bins_of(const Dim& n, bool onesided) { return onesided ? floordiv(n, Dim(2)) + 1 : n; }

bool is_complex_axis(const Dim& d) { return !d.is_const() || d.is_const(1) || d.is_const(2); }

// e^(sign * 2 pi i k / n), with k brought below n first, so that it errs as little for a late k as for an early one.
struct Turns {
  int64_t n;
  double sign;
  std::vector<double> cosines, sines;
  Turns(int64_t n, bool inverse) : n(n), sign(inverse ? 1 : -1) {
    for (int64_t k = 0; k < n; ++k) {
      const double angle = sign * 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
  }
};

// y[bin] of `count` elements that lie `step` apart, each complex or real, times a window: real and imaginary part to
// out[0] and out[1]. Elements beyond are zero.
struct Line {
  const RefTensor* x;
  int64_t first, step, count;
  bool complex;
  const RefTensor* window = nullptr;
};
void transform(const RefCall& call, const Line& line, const Turns& turns, int64_t bin, double scale, Near* out) {
  ProductSum re, im;
  double magnitude = 0;
  for (int64_t k = 0; k < line.count; ++k) {
    const int64_t at = line.first + k * line.step;
    const size_t turn = static_cast<size_t>(k % turns.n * bin % turns.n);
    const double c = turns.cosines[turn], s = turns.sines[turn];
    const Near w = element(line.window, k, 1);
    const Near a = times(w, element(line.x, at, 0)), b = line.complex ? times(w, element(line.x, at + 1, 0)) : Near{};
    re.add(a.v, a.r, c, 0);
    re.add(b.v, b.r, -s, 0);
    im.add(a.v, a.r, s, 0);
    im.add(b.v, b.r, c, 0);
    magnitude += std::fabs(a.v) + std::fabs(b.v);
  }
  // Factors err, and a fast transform errs at every element by its share of all.
  const double own = call.u == 0 ? 0 : call.u * 8 * magnitude + sum_radius(call.u, line.count, magnitude);
  out[0] = {re.value * scale, std::fabs(scale) * (re.radius(call.u, 2 * line.count) + own)};
  out[1] = {im.value * scale, std::fabs(scale) * (im.radius(call.u, 2 * line.count) + own)};
}

// ---- DFT -----------------------------------------------------------------------------------------------------------
Status upgrade_dft(ir::Graph& graph, ir::Node& node, int opset) {
  if (opset >= 20) return Ok{};
  const int64_t axis = node.i("axis", 1);
  node.attrs.erase("axis");
  put_input(graph, node, 2, ints_constant(graph, node.out()->name + ".axis", std::span(&axis, 1)));
  return Ok{};
}

Result<int64_t> dft_axis(const ir::Node& node, size_t rank) {
  int64_t axis = -2;
  if (node.in(2)) {
    const auto given = known_ints(node.in(2));
    if (!given || given->size() != 1) return unsupported("the axis of a DFT must be known before the model runs");
    axis = (*given)[0];
  }
  PERI_ASSIGN(const int64_t at, normalize_axis(axis, rank));
  if (at + 1 == static_cast<int64_t>(rank)) return invalid("the axis of a DFT is that of real and imaginary parts");
  return at;
}

Status infer_dft(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.size() < 2 || !is_complex_axis(x.back()))
    return invalid("x has a wrong shape").expecting("[batch, signal..., 1 or 2]").but_found(shape_text(x));
  PERI_ASSIGN(const int64_t axis, dft_axis(c.node, x.size()));
  Dim n = x[static_cast<size_t>(axis)];
  if (c.has(1)) {
    PERI_ASSIGN(n, length_of(c, 1, "the length of a DFT"));
  }
  const bool onesided = c.node.i("onesided") != 0;
  if (onesided && c.node.i("inverse") != 0) return unsupported("a DFT that is inverse and one-sided");
  Shape y = x;
  y[static_cast<size_t>(axis)] = bins_of(n, onesided);
  y.back() = Dim(2);
  c.set(0, c.dtype(0), std::move(y));
  return Ok{};
}

Status dft(RefCall& call) {
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  PERI_ASSIGN(const int64_t axis, dft_axis(call.node, x.dims.size()));
  const size_t a = static_cast<size_t>(axis);
  const int64_t n = call.in.size() > 1 && call.in[1] ? call.in[1]->i[0] : x.dims[a];
  if (y.numel() == 0) return Ok{};
  if (n < 1) return invalid("the length of a DFT is out of range").expecting(">= 1").but_found(std::to_string(n));
  const bool inverse = call.node.i("inverse") != 0, complex = x.dims.back() == 2;
  const Turns turns(n, inverse);
  const int64_t inner = span_of(x.dims, a + 1, x.dims.size() - 1), width = x.dims.back(), bins = y.dims[a];
  parallel_for(call.threads, y.numel() / 2, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t in = p % inner, bin = p / inner % bins, out = p / inner / bins;
      const Line line{&x, (out * x.dims[a] * inner + in) * width, inner * width, std::min(n, x.dims[a]), complex};
      Near value[2];
      transform(call, line, turns, bin, inverse ? 1 / static_cast<double>(n) : 1, value);
      store(y, 2 * p, value[0]);
      store(y, 2 * p + 1, value[1]);
    }
  });
  return Ok{};
}

// ---- STFT ----------------------------------------------------------------------------------------------------------
Result<Dim> frame_of(const InferContext& c) {
  if (c.has(3)) return length_of(c, 3, "the length of a frame");
  if (c.has(2) && c.rank(2) == 1) return c.shape(2)[0];
  return invalid("neither a window nor the length of a frame is given").expecting("one of them");
}

Status infer_stft(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.size() != 3 || !is_complex_axis(x[2]))
    return invalid("the signal has a wrong shape").expecting("[batch, length, 1 or 2]").but_found(shape_text(x));
  PERI_ASSIGN(const Dim step, length_of(c, 1, "the step between frames"));
  PERI_ASSIGN(const Dim frame, frame_of(c));
  if (!step.is_const() || step.value() < 1)
    return invalid("the step between frames is out of range").expecting(">= 1").but_found(step.text());
  if (c.has(2) && (c.rank(2) != 1 || (c.shape(2)[0].is_const() && frame.is_const() && !(c.shape(2)[0] == frame))))
    return invalid("the window has a wrong shape")
        .expecting("[" + frame.text() + "]")
        .but_found(shape_text(c.shape(2)));
  if (x[1].is_const() && frame.is_const() && x[1].value() < frame.value())
    return invalid("a frame is longer than the signal").expecting("at most " + x[1].text()).but_found(frame.text());
  c.set(0, c.dtype(0), {x[0], floordiv(x[1] - frame, step) + 1, bins_of(frame, c.node.i("onesided", 1) != 0), Dim(2)});
  return Ok{};
}

Status stft(RefCall& call) {
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  if (y.numel() == 0) return Ok{};
  const RefTensor* window = call.in.size() > 2 ? call.in[2] : nullptr;
  const int64_t step = call.in[1]->i[0], frame = call.in.size() > 3 && call.in[3] ? call.in[3]->i[0] : window->dims[0],
                width = x.dims[2];
  if (frame < 1)
    return invalid("the length of a frame is out of range").expecting(">= 1").but_found(std::to_string(frame));
  const int64_t frames = y.dims[1], bins = y.dims[2];
  const Turns turns(frame, false);
  parallel_for(call.threads, y.numel() / 2, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t bin = p % bins, at = p / bins % frames, image = p / bins / frames;
      const Line line{&x, (image * x.dims[1] + at * step) * width, width, frame, width == 2, window};
      Near value[2];
      transform(call, line, turns, bin, 1, value);
      store(y, 2 * p, value[0]);
      store(y, 2 * p + 1, value[1]);
    }
  });
  return Ok{};
}

// ---- MelWeightMatrix -----------------------------------------------------------------------------------------------
Status infer_mel(InferContext& c) {
  PERI_ASSIGN(const Dim bins, length_of(c, 0, "the number of mel bins"));
  PERI_ASSIGN(const Dim n, length_of(c, 1, "the length of the DFT"));
  for (const Dim& d : {bins, n})
    if (d.is_const() && d.value() < 1) return invalid("a length is out of range").expecting(">= 1").but_found(d.text());
  const int64_t type = c.node.i("output_datatype", 1);
  if (type <= 0 || type >= kDTypeCount || !contains(kFloats, static_cast<DType>(type)))
    return unsupported("a mel weight matrix of type %lld", static_cast<long long>(type)).advise("give a float type");
  c.set(0, static_cast<DType>(type), {floordiv(n, Dim(2)) + 1, bins});
  return Ok{};
}

// Corners of the triangles, as bins of the spectrum: equally far apart in mel.
std::vector<int64_t> corners(int64_t bins, int64_t n, double rate, double low, double high) {
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double step = (mel(high) - mel(low)) / static_cast<double>(bins + 2);
  std::vector<int64_t> out;
  for (int64_t k = 0; k < bins + 2; ++k) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(k) * step + mel(low)) / 2595) - 1);
    out.push_back(static_cast<int64_t>(std::floor(std::min(static_cast<double>(n + 1) * hertz / rate, 1e15))));
  }
  return out;
}

Status mel(RefCall& call) {
  RefTensor& y = call.out[0];
  std::fill(y.f.begin(), y.f.end(), 0.0);
  const int64_t rows = y.dims[0], bins = y.dims[1];
  const std::vector<int64_t> corner =
      corners(bins, call.in[1]->i[0], number_at(*call.in[2], 0), number_at(*call.in[3], 0), number_at(*call.in[4], 0));
  const auto put = [&](int64_t row, int64_t bin, double v) {
    if (row < 0 || row >= rows) return;
    store(y, row * bins + bin, {v, call.u * 4 * std::fabs(v)});
  };
  for (int64_t k = 0; k < bins; ++k) {
    const int64_t low = corner[static_cast<size_t>(k)], middle = corner[static_cast<size_t>(k + 1)],
                  high = corner[static_cast<size_t>(k + 2)];
    if (middle == low) put(middle, k, 1);
    for (int64_t j = low; middle > low && j <= std::min(middle, rows - 1); ++j)
      put(j, k, static_cast<double>(j - low) / static_cast<double>(middle - low));
    for (int64_t j = middle; j < std::min(high, rows); ++j)
      put(j, k, static_cast<double>(high - j) / static_cast<double>(high - middle));
  }
  return Ok{};
}

Cost cost(const ir::Node& node) {
  Cost c = traffic_of(node);
  const double n = std::max(2.0, elements_of(*node.out()));
  c.flops = 5 * n * std::log2(n);
  return c;
}
}  // namespace

extern const Entry signal_entry;
const Entry signal_entry{{
    {.name = "dft",
     .onnx = "DFT",
     .versions = {17, 20},
     .inputs = {{"x", kFloats}, {"dft_length", kIndex, true}, {"axis", kIndex, true}},
     .outputs = {{"y"}},
     .attrs = {{"inverse", AttrKind::kInt, false, "0"}, {"onesided", AttrKind::kInt, false, "0"}},
     .upgrade = upgrade_dft,
     .infer = infer_dft,
     .reference = dft,
     .cost = cost,
     .samples =
         {"graph { input x: f32[2,7,1]; y = dft(x); output y }",
          "graph { input x: f32[2,6,3,2]; const n: i64[] = [8]; const a: i64[] = [1]; y = dft(x, n, a) {inverse=1}; "
          "output y }",
          "graph { input x: f32[1,10,1]; const n: i64[] = [6]; y = dft(x, n) {onesided=1}; output y }",
          "graph { input x: f32[0,4,1]; y = dft(x); output y }"}},
    {.name = "stft",
     .onnx = "STFT",
     .versions = {17},
     .inputs = {{"signal", kFloats},
                {"frame_step", kIndex},
                {"window", kFloats, true, false, 0},
                {"frame_length", kIndex, true}},
     .outputs = {{"y"}},
     .attrs = {{"onesided", AttrKind::kInt, false, "1"}},
     .infer = infer_stft,
     .reference = stft,
     .cost = cost,
     .samples =
         {"graph { input x: f32[2,20,1]; const s: i64[] = [4]; const w: f32[8] = seeded(0.5, 1); y = stft(x, s, w); "
          "output y }",
          "graph { input x: f32[1,16,2]; const s: i64[] = [5]; const n: i64[] = [6]; y = stft(x, s, _, n) "
          "{onesided=0}; "
          "output y }"}},
    {.name = "mel_weight_matrix",
     .onnx = "MelWeightMatrix",
     .versions = {17},
     .inputs = {{"num_mel_bins", kIndex},
                {"dft_length", kIndex},
                {"sample_rate", kIndex},
                {"lower_edge_hertz", kFloats},
                {"upper_edge_hertz", kFloats}},
     .outputs = {{"y"}},
     .attrs = {{"output_datatype", AttrKind::kType, false, "f32"}},
     .infer = infer_mel,
     .reference = mel,
     .cost = cost,
     .samples =
         {"graph { const b: i64[] = [8]; const n: i64[] = [16]; const r: i64[] = [8192]; const l: f32[] = [0.0]; "
          "const h: f32[] = [4096.0]; y = mel_weight_matrix(b, n, r, l, h); output y }"}},
}};

}  // namespace peri::ops
