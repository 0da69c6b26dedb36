// Slice: start, end and step along chosen axes, clamped as in numpy; symbolic where starts, ends or dimensions are.
#include <algorithm>

#include "ops/reference/elements.hpp"
#include "ops/shape/content.hpp"
#include "ops/shape/upgrade.hpp"

namespace peri::ops {
namespace {
// v + (v < 0 ? d : 0); none: that is too long an expression.
std::optional<Dim> from_start(const Dim& v, const Dim& d, bool forwards) {
  if (v.is_const() && v.value() < -(int64_t{1} << 40)) return Dim(-1);  // before any element; v + d could overflow
  if (provably_at_least(v, 0)) return v;
  if (provably_at_least(Dim(0) - v, 1)) return v + d;
  // One or two before the end of a single element are the first, which all that is less than 0 stands for as well.
  if (const Dim before_end = d - v; forwards && (before_end.is_const(1) || before_end.is_const(2))) return v;
  const Dim either = v + d * is_less(v, Dim(0));
  return either.is_poison() ? std::nullopt : std::optional(either);
}

// Length of one sliced axis; none if it cannot be said before the run.
std::optional<Dim> sliced_length(const Dim& d, const Dim& start, const Dim& end, int64_t step) {
  const bool to_end = end.is_const() && end.value() >= (int64_t{1} << 31) - 1;  // how exporters write "to the end"
  const std::optional<Dim> s = from_start(start, d, step > 0),
                           e = to_end ? std::optional<Dim>(d) : from_start(end, d, step > 0);
  if (!s || !e) return std::nullopt;
  const Dim zero(0);
  if (step > 0) {
    const Dim first = max(*s, zero), last = e->is_const() && e->value() < 0 ? zero : min(*e, d);
    return max(ceildiv(last - first, Dim(step)), zero);
  }
  const bool from_far = start.is_const() && start.value() >= (int64_t{1} << 31) - 1;
  const Dim first = from_far ? d - Dim(1) : min(max(*s, zero), d - Dim(1));
  return max(ceildiv(first - max(*e, Dim(-1)), Dim(-step)), zero);
}

struct Range {
  int64_t start = 0, step = 1;
};
constexpr int64_t kMaxStep = int64_t{1} << 62;  // beyond it no sum wraps; a step beyond an axis takes its first element
// Concrete start and step of every axis, clamped as the definition says. REQUIRES concrete input dims.
Result<std::vector<Range>> ranges_of(const std::vector<int64_t>& dims, const std::vector<int64_t>& starts,
                                     const std::vector<int64_t>& axes, const std::vector<int64_t>& steps) {
  std::vector<Range> out(dims.size());
  for (size_t k = 0; k < starts.size(); ++k) {
    PERI_ASSIGN(const int64_t axis, normalize_axis(axes.empty() ? static_cast<int64_t>(k) : axes[k], dims.size()));
    const int64_t d = dims[static_cast<size_t>(axis)], most = std::max<int64_t>(d, 1);
    const int64_t step = steps.empty() ? 1 : std::clamp(steps[k], -most, most);
    const int64_t s = starts[k] < 0 ? std::max<int64_t>(starts[k], -d - 1) + d : starts[k];
    out[static_cast<size_t>(axis)] = {
        step > 0 ? std::clamp<int64_t>(s, 0, d) : std::clamp<int64_t>(s, 0, std::max<int64_t>(d - 1, 0)), step};
  }
  return out;
}
int64_t source_of(int64_t p, const std::vector<int64_t>& out, const std::vector<int64_t>& strides,
                  const std::vector<Range>& ranges) {
  int64_t at = 0;
  for (size_t k = out.size(); k-- > 0;) {
    at += (ranges[k].start + p % out[k] * ranges[k].step) * strides[k];
    p /= out[k];
  }
  return at;
}

struct Wanted {
  std::vector<int64_t> axes, steps;
};
Result<Wanted> axes_and_steps(InferContext& c, size_t count) {
  Wanted w;
  for (size_t k = 0; k < count; ++k) w.axes.push_back(static_cast<int64_t>(k));
  w.steps.assign(count, 1);
  if (c.has(3)) w.axes = *numbers_of(c, 3);
  if (c.has(4)) w.steps = *numbers_of(c, 4);
  if (w.axes.size() != count || w.steps.size() != count)
    return invalid("starts, axes and steps of slice differ in length");
  if (count > c.rank(0)) return invalid("slice names more axes than its input has");
  PERI_TRY(normalize_axes(w.axes, c.rank(0)));
  for (int64_t& a : w.axes) {
    PERI_ASSIGN(a, normalize_axis(a, c.rank(0)));
  }
  for (int64_t& s : w.steps) {
    if (s == 0) return invalid("slice has a step of 0");
    s = std::clamp(s, -kMaxStep, kMaxStep);
  }
  return w;
}

// The known elements that a slice with known starts takes.
Status pass_content(InferContext& c, const std::vector<Dim>& starts, const Wanted& w) {
  const auto in = known_input(c, 0);
  std::vector<int64_t> first;
  for (const Dim& d : starts)
    if (d.is_const()) first.push_back(d.value());
  if (!in || first.size() != starts.size()) return Ok{};
  PERI_ASSIGN(const std::vector<Range> ranges, ranges_of(in->dims, first, w.axes, w.steps));
  const std::vector<int64_t> strides = strides_of(in->dims);
  content_moved(c, 0, [&](int64_t p, const std::vector<int64_t>&, const std::vector<int64_t>& out) {
    return source_of(p, out, strides, ranges);
  });
  return Ok{};
}

// Elements of a list of `count` places, as far as they are known before the run: all, or those of a list that was
// joined of parts, as a crop along some axes is exported.
std::vector<std::optional<Dim>> elements_of(InferContext& c, size_t port, size_t count) {
  if (const std::vector<Dim>* known = c.known(port)) return {known->begin(), known->end()};
  std::vector<std::optional<Dim>> out = joined_elements(*c.node.in(port));
  out.resize(out.size() == count ? count : 0);
  out.resize(count);
  return out;
}

Status infer(InferContext& c) {
  if (c.rank(1) != 1 || c.rank(2) != 1) return invalid("starts and ends of slice must be lists");
  const Dim &starts_length = c.shape(1)[0], &ends_length = c.shape(2)[0];
  if (starts_length.is_const() && ends_length.is_const() && !(starts_length == ends_length))
    return invalid("starts and ends of slice differ in length")
        .expecting(starts_length.text())
        .but_found(ends_length.text());
  const bool axes_known = (!c.has(3) || numbers_of(c, 3)) && (!c.has(4) || numbers_of(c, 4));
  if (!starts_length.is_const() || !axes_known) {  // which axes are cut is known only when the model runs
    c.set(0, c.dtype(0), fresh_shape(c, c.rank(0), "sliced"));
    return Ok{};
  }
  const size_t count = static_cast<size_t>(starts_length.value());
  PERI_ASSIGN(const Wanted w, axes_and_steps(c, count));
  const std::vector<Dim>* starts = c.known(1);
  const std::vector<std::optional<Dim>> from = elements_of(c, 1, count), to = elements_of(c, 2, count);
  Shape out = c.shape(0);
  for (size_t k = 0; k < count; ++k) {
    Dim& d = out[static_cast<size_t>(w.axes[k])];
    std::optional<Dim> length;
    if (from[k] && to[k]) length = sliced_length(d, *from[k], *to[k], w.steps[k]);
    d = length && !length->is_poison() ? *length : c.fresh("sliced");
  }
  c.set(0, c.dtype(0), std::move(out));
  return starts ? pass_content(c, *starts, w) : Status(Ok{});
}

Status reference(RefCall& call) {
  const auto list = [&](size_t port) {
    return port < call.in.size() && call.in[port] ? call.in[port]->i : std::vector<int64_t>();
  };
  PERI_ASSIGN(const std::vector<Range> ranges, ranges_of(call.in[0]->dims, list(1), list(3), list(4)));
  const std::vector<int64_t> strides = strides_of(call.in[0]->dims);
  return move_elements(call, *call.in[0], [&](int64_t p) { return source_of(p, call.out[0].dims, strides, ranges); });
}
bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  if (port != 0) return false;
  const auto starts = known_ints(node.in(1));
  if (!starts || (node.in(3) && !known_ints(node.in(3))) || (node.in(4) && !known_ints(node.in(4)))) return false;
  const std::vector<int64_t> in = concrete(*node.in(0)), out = concrete(*node.out()), strides = strides_of(in);
  auto ranges = ranges_of(in, *starts, node.in(3) ? *known_ints(node.in(3)) : std::vector<int64_t>(),
                          node.in(4) ? *known_ints(node.in(4)) : std::vector<int64_t>());
  if (!ranges.ok()) return false;
  needed->clear();
  for (int64_t p : positions) needed->push_back(source_of(p, out, strides, *ranges));
  sort_unique(needed);
  return true;
}

Status upgrade(ir::Graph& graph, ir::Node& node, int opset) {
  if (opset >= 10) return Ok{};
  PERI_TRY(ints_to_input(graph, node, "starts", 1));
  PERI_TRY(ints_to_input(graph, node, "ends", 2));
  return ints_to_input(graph, node, "axes", 3);
}
}  // namespace

extern const Entry slice_entry;
const Entry slice_entry{{
    {.name = "slice",
     .onnx = "Slice",
     .versions = {1, 10, 11, 13},
     .inputs = {{"x", kMovable},
                {"starts", kIndex},
                {"ends", kIndex, false, false, 1},
                {"axes", kIndex, true, false, 1},
                {"steps", kIndex, true, false, 1}},
     .outputs = {{"y"}},
     .upgrade = upgrade,
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost_move,
     .moves = true,
     .samples =
         {"graph { input x: f32[5,7]; const s: i64[2] = [1, 6]; const e: i64[2] = [9223372036854775807, -9]; const a: "
          "i64[2] = [0, 1]; const t: i64[2] = [9223372036854775807, -9223372036854775808]; y = slice(x, s, e, a, t); "
          "output y }",
          "graph { input x: f32[5,7]; const s: i64[2] = [1, 0]; const e: i64[2] = [4, 6]; y = slice(x, s, e); output y "
          "}",
          "graph { input x: f32[5,7]; const s: i64[1] = [-3]; const e: i64[1] = [9223372036854775807]; const a: i64[1] "
          "= [-1]; y = slice(x, s, e, a); output y }",
          "graph { input x: i32[5,7]; const s: i32[2] = [-1, 20]; const e: i32[2] = [-10, 1]; const a: i32[2] = [0, "
          "1]; const t: i32[2] = [-1, -2]; y = slice(x, s, e, a, t); output y }",
          "graph { input x: f32[5,7]; const s: i64[2] = [3, -20]; const e: i64[2] = [0, -30]; const a: i64[2] = [0, "
          "1]; const t: i64[2] = [-1, -2]; y = slice(x, s, e, a, t); output y }",
          "graph { input x: f32[5]; const s: i64[1] = [3]; const e: i64[1] = [2]; y = slice(x, s, e); output y }",
          "graph { input x: f32[0,4]; const s: i64[1] = [0]; const e: i64[1] = [5]; y = slice(x, s, e); output y }",
          "graph { input x: f32[9]; const s: i64[1] = [4]; const e: i64[1] = [-9223372036854775807]; const a: i64[1] = "
          "[0]; const t: i64[1] = [-3]; y = slice(x, s, e, a, t); output y }"}},
}};
}  // namespace peri::ops
