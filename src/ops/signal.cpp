// DFT, STFT and MelWeightMatrix: spectra by their definition, and the triangular weights of mel bins. A complex number
// is an axis of two elements, a real one an axis of one.
#include <algorithm>
#include <cmath>

#include "ops/reference/cost.hpp"
#include "ops/reference/dense.hpp"
#include "ops/reference/elements.hpp"
#include "ops/reference/norm.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/reference/spectrum.hpp"
#include "ops/shape/content.hpp"
#include "ops/shape/indices.hpp"
#include "ops/shape/upgrade.hpp"

namespace peri::ops {
namespace {

// The number in input `port`; none where only a run knows it.
std::optional<Dim> length_of(const InferContext& c, size_t port) {
  const std::vector<Dim>* known = c.elements(port);
  if (!known || known->size() != 1) return std::nullopt;
  return (*known)[0];
}
// That of a run.
Result<int64_t> length_of(const RefCall& call, size_t port, const char* what) {
  const int64_t n = call.in[port]->i.empty() ? 0 : call.in[port]->i[0];
  if (n < 1 || n > int64_t{1} << 40)
    return invalid("%s is out of range", what).expecting(">= 1").but_found(std::to_string(n));
  return n;
}

Dim bins_of(const Dim& n, bool onesided) { return onesided ? floordiv(n, Dim(2)) + 1 : n; }

bool is_complex_axis(const Dim& d) { return !d.is_const() || d.is_const(1) || d.is_const(2); }

// `count` elements `step` apart, each complex or real, times a window: real and imaginary parts.
struct Line {
  std::vector<Near> re, im;
  Line(const RefTensor& x, int64_t first, int64_t step, int64_t count, bool complex,
       const RefTensor* window = nullptr) {
    for (int64_t k = 0; k < count; ++k) {
      const Near w = element(window, k, 1);
      re.push_back(times(w, element(&x, first + k * step, 0)));
      im.push_back(complex ? times(w, element(&x, first + k * step + 1, 0)) : Near{});
    }
  }
};

// ---- DFT -----------------------------------------------------------------------------------------------------------
Status upgrade_dft(ir::Graph& graph, ir::Node& node, int opset) {
  if (opset >= 20) return Ok{};
  const int64_t axis = node.i("axis", 1);
  node.attrs.erase("axis");
  put_input(graph, node, 2, ints_constant(graph, node.out()->name + ".axis", std::span(&axis, 1)));
  return Ok{};
}

Result<int64_t> checked_axis(int64_t axis, size_t rank) {
  PERI_ASSIGN(const int64_t at, normalize_axis(axis, rank));
  if (at + 1 == static_cast<int64_t>(rank)) return invalid("the axis of a DFT is that of real and imaginary parts");
  return at;
}

// What it gives of n elements: a real signal has half a spectrum that is not its other half's mirror.
struct Form {
  bool inverse, half;
  explicit Form(const ir::Node& node) : inverse(node.i("inverse") != 0), half(node.i("onesided") != 0) {}
  Dim width() const { return inverse && half ? Dim(1) : Dim(2); }
  // Elements of the signal where its length is not given.
  Dim length(const Dim& in) const { return inverse && half ? Dim(2) * (in - 1) : in; }
  Dim bins(const Dim& n) const { return bins_of(n, half && !inverse); }
};

Status infer_dft(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.size() < 2 || !is_complex_axis(x.back()))
    return invalid("x has a wrong shape").expecting("[batch, signal..., 1 or 2]").but_found(shape_text(x));
  const Form form(c.node);
  if (form.inverse && form.half && x.back().is_const(1))
    return invalid("an inverse one-sided DFT is of complex numbers");
  const auto named = c.has(2) ? known_ints(c.node.in(2)) : std::vector<int64_t>{-2};
  if (named && named->size() != 1) return invalid("the axis of a DFT is not one number");
  if (!named) {
    Shape y = fresh_shape(c, x.size() - 1, "dft");
    y.push_back(form.width());
    c.set(0, c.dtype(0), std::move(y));
    return Ok{};
  }
  PERI_ASSIGN(const int64_t axis, checked_axis((*named)[0], x.size()));
  Shape y = x;
  Dim& along = y[static_cast<size_t>(axis)];
  const std::optional<Dim> n = c.has(1) ? length_of(c, 1) : form.length(along);
  along = n ? form.bins(*n) : c.fresh("dft");
  y.back() = form.width();
  c.set(0, c.dtype(0), std::move(y));
  return Ok{};
}

// The whole spectrum of a signal that is real has its first half mirrored: element k of n of what the input holds.
Near mirrored(const RefTensor& x, int64_t first, int64_t step, int64_t held, int64_t k, int64_t n, int part) {
  const bool other = k >= n / 2 + 1;
  const int64_t at = other ? n - k : k;
  if (at >= held) return {};
  Near v = element(&x, first + at * step + part, 0);
  if (part == 1 && other) v.v = -v.v;
  if (part == 1 && (k == 0 || 2 * k == n)) v = {};  // real in any real signal
  return v;
}

void real_signal(RefCall& call, int64_t n, int64_t inner, int64_t held) {
  const RefTensor& x = *call.in[0];
  const Spectrum spectrum(n, true);
  parallel_for(call.threads, call.out[0].numel() / n, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t in = line % inner, outer = line / inner, first = (outer * held * inner + in) * 2;
      std::vector<Near> re, im;
      for (int64_t k = 0; k < n; ++k) {
        re.push_back(mirrored(x, first, inner * 2, held, k, n, 0));
        im.push_back(mirrored(x, first, inner * 2, held, k, n, 1));
      }
      const std::vector<Near> y = spectrum.of(call, re, im, n, 1 / static_cast<double>(n));
      for (int64_t k = 0; k < n; ++k) store(call.out[0], (outer * n + k) * inner + in, y[static_cast<size_t>(2 * k)]);
    }
  });
}

Status dft(RefCall& call) {
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  const Form form(call.node);
  const bool named = call.in.size() > 2 && call.in[2] && !call.in[2]->i.empty();
  PERI_ASSIGN(const int64_t axis, checked_axis(named ? call.in[2]->i[0] : -2, x.dims.size()));
  const size_t a = static_cast<size_t>(axis);
  int64_t n = form.length(Dim(x.dims[a])).value();
  if (call.in.size() > 1 && call.in[1]) {
    PERI_ASSIGN(n, length_of(call, 1, "the length of a DFT"));
  }
  std::vector<int64_t> dims = x.dims;
  dims[a] = form.bins(Dim(n)).value();
  dims.back() = form.width().value();
  if (dims != y.dims) PERI_TRY(resize(y, dims));
  if (y.numel() == 0) return Ok{};
  if (n < 1) return invalid("the length of a DFT is out of range").expecting(">= 1").but_found(std::to_string(n));
  if (form.inverse && form.half) {
    real_signal(call, n, span_of(x.dims, a + 1, x.dims.size() - 1), x.dims[a]);
    return Ok{};
  }
  const bool inverse = call.node.i("inverse") != 0, complex = x.dims.back() == 2;
  const Spectrum spectrum(n, inverse);
  const int64_t inner = span_of(x.dims, a + 1, x.dims.size() - 1), width = x.dims.back(), bins = y.dims[a];
  parallel_for(call.threads, y.numel() / 2 / bins, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t in = p % inner, outer = p / inner;
      const Line line(x, (outer * x.dims[a] * inner + in) * width, inner * width, std::min(n, x.dims[a]), complex);
      const auto made = spectrum.of(call, line.re, line.im, bins, inverse ? 1 / static_cast<double>(n) : 1);
      for (int64_t k = 0; k < 2 * bins; ++k)
        store(y, ((outer * bins + k / 2) * inner + in) * 2 + k % 2, made[static_cast<size_t>(k)]);
    }
  });
  return Ok{};
}

// ---- STFT ----------------------------------------------------------------------------------------------------------
// Poison where only a run knows it.
Result<Dim> frame_of(const InferContext& c) {
  if (c.has(3))
    if (const auto n = length_of(c, 3)) return *n;
  if (c.has(2) && c.rank(2) == 1) return c.shape(2)[0];
  if (c.has(3)) return Dim::poison();
  return invalid("neither a window nor the length of a frame is given").expecting("one of them");
}

Status infer_stft(InferContext& c) {
  const Shape& x = c.shape(0);  // without the last axis it is real: torch.stft is exported so, and ONNX Runtime runs it
  if (x.size() != 2 && (x.size() != 3 || !is_complex_axis(x[2])))
    return invalid("the signal has a wrong shape")
        .expecting("[batch, length] or [batch, length, 1 or 2]")
        .but_found(shape_text(x));
  const std::optional<Dim> step = length_of(c, 1);
  PERI_ASSIGN(const Dim frame, frame_of(c));
  if (step && step->is_const() && step->value() < 1)
    return invalid("the step between frames is out of range").expecting(">= 1").but_found(step->text());
  if (c.has(2) && (c.rank(2) != 1 || (c.shape(2)[0].is_const() && frame.is_const() && !(c.shape(2)[0] == frame))))
    return invalid("the window has a wrong shape")
        .expecting("[" + frame.text() + "]")
        .but_found(shape_text(c.shape(2)));
  if (x[1].is_const() && frame.is_const() && x[1].value() < frame.value())
    return invalid("a frame is longer than the signal").expecting("at most " + x[1].text()).but_found(frame.text());
  if (frame.is_poison()) {
    c.set(0, c.dtype(0), {x[0], c.fresh("frames"), c.fresh("bins"), Dim(2)});
    return Ok{};
  }
  const bool known = step && (step->is_const() || provably_at_least(*step, 1));
  const Dim frames = known ? floordiv(x[1] - frame, *step) + 1 : c.fresh("frames");
  c.set(0, c.dtype(0), {x[0], frames, bins_of(frame, c.node.i("onesided", 1) != 0), Dim(2)});
  return Ok{};
}

Status stft(RefCall& call) {
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  const RefTensor* window = call.in.size() > 2 ? call.in[2] : nullptr;
  PERI_ASSIGN(const int64_t step, length_of(call, 1, "the step between frames"));
  int64_t frame = window ? window->dims[0] : 0;
  if (call.in.size() > 3 && call.in[3]) {
    PERI_ASSIGN(frame, length_of(call, 3, "the length of a frame"));
  }
  const int64_t width = x.dims.size() == 2 ? 1 : x.dims[2];
  if (frame < 1 || frame > x.dims[1] || (window && window->dims[0] != frame))
    return invalid("the length of a frame is out of range")
        .expecting(format("1 to %lld, and that of the window", static_cast<long long>(x.dims[1])))
        .but_found(std::to_string(frame));
  const std::vector<int64_t> dims = {x.dims[0], (x.dims[1] - frame) / step + 1,
                                     call.node.i("onesided", 1) != 0 ? frame / 2 + 1 : frame, 2};
  if (dims != y.dims) PERI_TRY(resize(y, dims));
  if (y.numel() == 0) return Ok{};
  const int64_t frames = y.dims[1], bins = y.dims[2];
  const Spectrum spectrum(frame, false);
  parallel_for(call.threads, y.numel() / 2 / bins, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t at = p % frames, image = p / frames;
      const Line line(x, (image * x.dims[1] + at * step) * width, width, frame, width == 2, window);
      const std::vector<Near> made = spectrum.of(call, line.re, line.im, bins, 1);
      for (int64_t k = 0; k < 2 * bins; ++k) store(y, 2 * p * bins + k, made[static_cast<size_t>(k)]);
    }
  });
  return Ok{};
}

// ---- MelWeightMatrix -----------------------------------------------------------------------------------------------
Status infer_mel(InferContext& c) {
  const std::optional<Dim> bins = length_of(c, 0), n = length_of(c, 1);
  for (const auto& d : {bins, n})
    if (d && d->is_const() && d->value() < 1)
      return invalid("a length is out of range").expecting(">= 1").but_found(d->text());
  const int64_t type = c.node.i("output_datatype", 1);
  if (type <= 0 || type >= kDTypeCount || !contains(kFloats, static_cast<DType>(type)))
    return unsupported("a mel weight matrix of type %lld", static_cast<long long>(type)).advise("give a float type");
  c.set(0, static_cast<DType>(type),
        {n ? floordiv(*n, Dim(2)) + 1 : c.fresh("spectrum"), bins ? *bins : c.fresh("mel")});
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
  PERI_ASSIGN(const int64_t mels, length_of(call, 0, "the number of mel bins"));
  PERI_ASSIGN(const int64_t n, length_of(call, 1, "the length of the DFT"));
  if (y.dims != std::vector<int64_t>{n / 2 + 1, mels}) PERI_TRY(resize(y, {n / 2 + 1, mels}));
  std::fill(y.f.begin(), y.f.end(), 0.0);
  const int64_t rows = y.dims[0], bins = y.dims[1];
  const std::vector<int64_t> corner =
      corners(bins, n, number_at(*call.in[2], 0), number_at(*call.in[3], 0), number_at(*call.in[4], 0));
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
          "graph { input x: f32[1,128,2]; y = dft(x); output y }",
          "graph { input x: f32[1,67,1]; y = dft(x) {onesided=1}; output y }",
          "graph { input x: f32[2,6,3,2]; const n: i64[] = [8]; const a: i64[] = [1]; y = dft(x, n, a) {inverse=1}; "
          "output y }",
          "graph { input x: f32[1,10,1]; const n: i64[] = [6]; y = dft(x, n) {onesided=1}; output y }",
          "graph { input x: f32[0,4,1]; y = dft(x); output y }",
          "graph { input x: f32[2,4,2]; y = dft(x) {inverse=1, onesided=1}; output y }",
          "graph { input x: f32[1,3,2,2]; const n: i64[] = [5]; const a: i64[] = [1]; y = dft(x, n, a) {inverse=1, "
          "onesided=1}; output y }"}},
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
          "output y }",
          "graph { input x: f32[2,20]; const s: i64[] = [4]; const w: f32[8] = seeded(0.5, 1); y = stft(x, s, w); "
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
