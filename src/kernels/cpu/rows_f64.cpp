// Kernel rows_f64: softmax, log-softmax, and normalisation by a norm, a root mean square or mean and deviation, of
// float64 along an axis, and of the groups of channels of an image. Adjacent lines are processed together.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/task_elements.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/cpu/typed/joins.hpp"

namespace peri::kernels {
namespace {
namespace typed = cpu::typed;
using typed::Join;

constexpr int64_t kColumns = 64;  // lines side by side: a few cache lines of each row of them

enum class Kind : uint8_t { kSoftmax, kLogSoftmax, kNorm1, kNorm2, kLayerNorm, kRmsNorm, kGroupNorm };

// x is [outer, length, inner], normalised along the middle.
struct Shape {
  Kind kind{};
  int64_t outer = 1, length = 1, inner = 1;
  int64_t groups = 1, spatial = 0;  // of an image: groups of channels, pixels of a channel
  double epsilon = 0;
  int64_t blocks() const { return (inner + kColumns - 1) / kColumns; }
  int64_t units() const { return outer * blocks(); }
  int64_t units_a_task() const {  // elements of twice the bytes, and expensive ones
    return std::max<int64_t>(1, cpu::kTaskElements / 4 / (length * std::min(inner, kColumns)));
  }
  int64_t tasks() const { return (units() + units_a_task() - 1) / units_a_task(); }
  bool rows() const { return kind == Kind::kLayerNorm || kind == Kind::kRmsNorm || kind == Kind::kGroupNorm; }
};

Result<Kind> kind_of(const ir::Node& n) {
  if (n.op == "softmax") return Kind::kSoftmax;
  if (n.op == "log_softmax") return Kind::kLogSoftmax;
  if (n.op == "lp_normalization") return n.i("p", 2) == 1 ? Kind::kNorm1 : Kind::kNorm2;
  if (n.op == "layer_normalization") return Kind::kLayerNorm;
  if (n.op == "rms_normalization") return Kind::kRmsNorm;
  if (n.op == "group_normalization" || n.op == "instance_normalization") return Kind::kGroupNorm;
  return refused("none of its operators");
}

// An image's groups as rows.
Status read_groups(const ir::Node& n, const std::vector<int64_t>& d, Shape* s) {
  if (d.size() < 2) return refused("an image without channels");
  s->spatial = 1;
  for (size_t k = 2; k < d.size(); ++k) s->spatial *= d[k];
  s->groups = n.op == "group_normalization" ? n.i("num_groups") : d[1];
  if (d[0] * d[1] * s->spatial == 0 || s->groups < 1 || d[1] % s->groups != 0) return refused("an empty tensor");
  s->outer = d[0] * s->groups;
  s->length = d[1] / s->groups * s->spatial;
  return Ok{};
}

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  Shape s;
  PERI_ASSIGN(s.kind, kind_of(n));
  if (p.graph->nodes.back() != &n || p.graph->outputs.size() != 1 || p.graph->outputs[0] != n.out())
    return refused("takes one node and its first result");
  for (const ir::Value* v : n.inputs)
    if (v && v->type.dtype != DType::kF64) return refused("takes f64 only");
  if (n.out()->type.dtype != DType::kF64) return refused("takes f64 only");
  const std::vector<int64_t> d = dims_of(*n.in(0));
  const auto rank = static_cast<int64_t>(d.size());
  s.epsilon = static_cast<double>(n.f("epsilon", 1e-5F));
  if (s.kind == Kind::kGroupNorm) {
    PERI_TRY(read_groups(n, d, &s));
    return s;
  }
  int64_t axis = n.i("axis", -1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return refused("no axis to go along");
  for (int64_t k = 0; k < rank; ++k)
    (k < axis ? s.outer : k == axis || s.rows() ? s.length : s.inner) *= d[static_cast<size_t>(k)];
  if (s.outer * s.length * s.inner == 0) return refused("an empty tensor");
  if (!s.rows()) return s;
  for (size_t port = 1; port < n.inputs.size(); ++port) {
    if (!n.in(port)) continue;
    int64_t count = 1;
    for (const int64_t extent : dims_of(*n.in(port))) count *= extent;
    if (count != s.length) return refused("a scale or shift that is not one for each element of a row");
  }
  return s;
}

// Lines of `length` elements `step` apart, `columns` of them side by side.
struct Lines {
  const double* x;
  double* y;
  int64_t length, columns, step;
  bool one() const { return step == 1; }  // line, whose elements are neighbours
};

class Rows {
 public:
  Rows(const Shape& s, cpu::Isa isa) : s_(s) {
    const bool wide = isa == cpu::Isa::kAvx512;
    const auto joins = wide ? typed::avx512::find_joins : typed::avx2::find_joins;
    most_ = joins(Join::kMax, typed::Elem::kF64);
    sum_ = joins(Join::kSum, typed::Elem::kF64);
    magnitude_ = joins(Join::kSumMagnitude, typed::Elem::kF64);
    square_ = joins(Join::kSumSquare, typed::Elem::kF64);
    exp_ = (wide ? typed::avx512::find : typed::avx2::find)(typed::Op::kExp, typed::Elem::kF64, typed::Elem::kF64);
  }

  void run_task(int64_t task, const double* x, const double* scale, const double* shift, double* y) const {
    const int64_t end = std::min(s_.units(), (task + 1) * s_.units_a_task());
    for (int64_t unit = task * s_.units_a_task(); unit < end; ++unit) {
      const int64_t first = unit % s_.blocks() * kColumns, at = unit / s_.blocks() * s_.length * s_.inner + first;
      const Lines l{x + at, y + at, s_.length, std::min(kColumns, s_.inner - first), s_.inner};
      if (s_.kind == Kind::kSoftmax || s_.kind == Kind::kLogSoftmax)
        softmax(l);
      else if (s_.rows())
        normalize(l, scale, shift, unit % s_.groups);
      else
        by_norm(l);
    }
  }

 private:
  using Each = std::array<double, kColumns>;  // of the columns

  static Each joined(const typed::Joins& by, const double* x, const Lines& l, double start) {
    Each out;
    out.fill(start);
    if (l.one())
      by.run(x, l.length, out.data());
    else
      for (int64_t j = 0; j < l.length; ++j) by.places(x + j * l.step, l.columns, out.data());
    return out;
  }
  // y = f(x, of the column, place in the line).
  template <class F>
  [[gnu::target("avx2")]] static void each(const double* from, const Lines& l, const Each& by, const F& f) {
    if (l.one()) {
      const double v = by[0];
      for (int64_t j = 0; j < l.length; ++j) l.y[j] = f(from[j], v, j);
      return;
    }
    for (int64_t j = 0; j < l.length; ++j) {
      const double* const x = from + j * l.step;
      double* const y = l.y + j * l.step;
      for (int64_t c = 0; c < l.columns; ++c) y[c] = f(x[c], by[static_cast<size_t>(c)], j);
    }
  }
  void exponentials(const double* x, double* y, int64_t n) const { exp_({x, nullptr, nullptr, y, n, nullptr}); }

  void softmax(const Lines& l) const {
    const Each most = joined(most_, l.x, l, -std::numeric_limits<double>::infinity());
    each(l.x, l, most, [](double v, double m, int64_t) { return v - m; });
    if (s_.kind == Kind::kLogSoftmax) {
      const Each logs = log_sums(l);
      return each(l.y, l, logs, [](double v, double s, int64_t) { return v - s; });
    }
    if (l.one())
      exponentials(l.y, l.y, l.length);
    else
      for (int64_t j = 0; j < l.length; ++j) exponentials(l.y + j * l.step, l.y + j * l.step, l.columns);
    const Each sums = joined(sum_, l.y, l, 0);
    each(l.y, l, sums, [](double v, double s, int64_t) { return v / s; });
  }
  // Logarithms of the sums of the exponentials of y, which stays as it is.
  Each log_sums(const Lines& l) const {
    Each sums{};
    Each part;
    const int64_t width = l.one() ? kColumns : l.columns, count = l.one() ? l.length : l.columns;
    for (int64_t j = 0; j < (l.one() ? 1 : l.length); ++j)
      for (int64_t at = 0; at < count; at += width) {
        const int64_t n = std::min(width, count - at);
        exponentials(l.y + j * l.step + at, part.data(), n);
        if (l.one())
          sum_.run(part.data(), n, sums.data());
        else
          sum_.places(part.data(), n, sums.data());
      }
    for (int64_t c = 0; c < l.columns; ++c) sums[static_cast<size_t>(c)] = std::log(sums[static_cast<size_t>(c)]);
    return sums;
  }

  void by_norm(const Lines& l) const {
    Each norm = joined(s_.kind == Kind::kNorm1 ? magnitude_ : square_, l.x, l, 0);
    if (s_.kind == Kind::kNorm2)
      for (double& v : norm) v = std::sqrt(v);
    each(l.x, l, norm, [](double v, double n, int64_t) { return n == 0 ? 0 : v / n; });
  }

  // A row in one line: y becomes what lies beside the mean, then the rest.
  void normalize(const Lines& l, const double* scale, const double* shift, int64_t group) const {
    const auto n = static_cast<double>(l.length);
    Each mean{};
    if (s_.kind != Kind::kRmsNorm) mean[0] = joined(sum_, l.x, l, 0)[0] / n;
    each(l.x, l, mean, [](double v, double m, int64_t) { return v - m; });
    Each by{};
    by[0] = 1 / std::sqrt(joined(square_, l.y, l, 0)[0] / n + s_.epsilon);
    if (s_.kind == Kind::kGroupNorm) return channels(l, by, scale, shift, group * (s_.length / s_.spatial));
    if (shift)
      each(l.y, l, by, [=](double v, double b, int64_t j) { return v * b * scale[j] + shift[j]; });
    else
      each(l.y, l, by, [=](double v, double b, int64_t j) { return v * b * scale[j]; });
  }

  // Each channel of a group, the first of which is `first`.
  void channels(const Lines& l, const Each& by, const double* scale, const double* shift, int64_t first) const {
    for (int64_t c = 0; c < s_.length / s_.spatial; ++c) {
      const Lines part{l.x + c * s_.spatial, l.y + c * s_.spatial, s_.spatial, 1, 1};
      const double own = scale[first + c], beside = shift[first + c];
      each(part.y, part, by, [=](double v, double b, int64_t) { return v * b * own + beside; });
    }
  }

  Shape s_;
  typed::Joins most_, sum_, magnitude_, square_;
  typed::Loop exp_;
};

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(cpu::best_isa(target));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  const ir::Node& n = p.anchor();
  const auto f64 = [](const Source& from, const Args& args) { return static_cast<const double*>(from.data(args)); };
  return TaskInstance::make(
      s.tasks(), 0,
      [rows = Rows(s, isa), f64, x = Source::of(p, n.in(0), c.constants),
       scale = Source::of(p, s.rows() ? n.in(1) : nullptr, c.constants),
       shift = Source::of(p, s.rows() ? n.in(2) : nullptr, c.constants)](int64_t task, const Args& args) {
        rows.run_task(task, f64(x, args), f64(scale, args), f64(shift, args), static_cast<double*>(args.out[0]));
      });
}
}  // namespace

extern const Entry rows_f64_entry;
const Entry rows_f64_entry{{
    .name = "rows_f64",
    .version = 1,
    .provider = "peri",
    .takes = "softmax, log_softmax, lp_normalization along an axis, layer and RMS normalization of rows, group "
             "and instance normalization, of f64",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: f64[70,301]; y = softmax(x); output y }",
         "graph { input x: f64[3,70,99]; y = softmax(x) {axis=1}; output y }",
         "graph { input x: f64[70,301]; y = log_softmax(x); output y }",
         "graph { input x: f64[3,70,99]; y = log_softmax(x) {axis=1}; output y }",
         "graph { input x: f64[70,301]; y = lp_normalization(x) {p=1}; output y }",
         "graph { input x: f64[3,70,99]; y = lp_normalization(x) {axis=1}; output y }",
         "graph { input x: f64[70,301]; const s: f64[301] = seeded(1, 1); const b: f64[301] = seeded(1, 2); y = "
         "layer_normalization(x, s, b); output y }",
         "graph { input x: f64[30,7,43]; const s: f64[7,43] = seeded(1, 1); y = layer_normalization(x, s) {axis=1}; "
         "output y }",
         "graph { input x: f64[70,301]; const s: f64[301] = seeded(1, 1); y = rms_normalization(x, s); output y }",
         "graph { input x: f64[2,12,9,33]; const s: f64[12] = seeded(0.5, 1); const b: f64[12] = seeded(0.5, 2); y = "
         "group_normalization(x, s, b) {num_groups=3}; output y }",
         "graph { input x: f64[2,5,33]; const s: f64[5] = seeded(0.5, 1); const b: f64[5] = seeded(0.5, 2); y = "
         "instance_normalization(x, s, b); output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
