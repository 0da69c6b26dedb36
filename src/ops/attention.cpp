// Attention as passes fuse it: y = softmax(scale * q kᵀ + mask) v for each batch and head, sums in at least float.
// Layouts name the axes of q, k, v and y: b batch, h heads, s position, d depth; b and h may be missing. If k and v
// have fewer heads than q, adjacent heads of q share them. causal: query i sees keys j <= i + keys - queries, or with
// past j <= i + past. softcap c: scores are c tanh(score / c) before the mask.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ops/reference/attend.hpp"
#include "ops/reference/cost.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/reference/position_set.hpp"
#include "ops/shape/any_size.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"

namespace peri::ops {
namespace {

constexpr std::string_view kLetters = "bhsd";
enum Axis { kBatch, kHeads, kPlace, kDepth };
constexpr const char* kPorts[] = {"q", "k", "v", "y"};

Result<std::string> layout_of(const ir::Node& node, size_t port) {
  const std::string key = std::string(kPorts[port]) + "_layout", word = node.s(key, "bhsd");
  std::string sorted = word;
  std::sort(sorted.begin(), sorted.end());
  bool good = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end() &&
              sorted.find('s') != std::string::npos && sorted.find('d') != std::string::npos;
  for (char c : word) good &= kLetters.find(c) != std::string_view::npos;
  if (!good)
    return invalid("%s is not a layout", key.c_str()).expecting("s and d, perhaps b and h, each once").but_found(word);
  return word;
}

// Extents by letter; 1 for a missing one.
Result<std::array<Dim, 4>> extents(const ir::Node& node, size_t port, const Shape& shape) {
  PERI_ASSIGN(const std::string layout, layout_of(node, port));
  if (layout.size() != shape.size())
    return invalid("%s has a wrong rank", kPorts[port]).expecting("axes " + layout).but_found(shape_text(shape));
  std::array<Dim, 4> e = {Dim(1), Dim(1), Dim(1), Dim(1)};
  for (size_t k = 0; k < layout.size(); ++k) e[kLetters.find(layout[k])] = shape[k];
  return e;
}

Status same(const Dim& a, const Dim& b, const char* what) {
  if (a.is_const() && b.is_const() && !(a == b)) return invalid("%s", what).expecting(a.text()).but_found(b.text());
  return Ok{};
}

Status check_options(const ir::Node& node) {
  if (const double cap = node.f("softcap"); !(cap >= 0))
    return invalid("softcap is out of range").expecting(">= 0").but_found(std::to_string(cap));
  const std::vector<Dim>* const past = node.dims("past");
  if (past && (past->size() != 1 || (past->front().is_const() && past->front().value() < 0)))
    return invalid("past is not a number of keys").expecting("one size >= 0").but_found(shape_text(*past));
  return Ok{};
}

Status infer(InferContext& c) {
  PERI_TRY(check_options(c.node));
  PERI_ASSIGN(const auto q, extents(c.node, 0, c.shape(0)));
  PERI_ASSIGN(const auto k, extents(c.node, 1, c.shape(1)));
  PERI_ASSIGN(const auto v, extents(c.node, 2, c.shape(2)));
  PERI_TRY(same(q[kBatch], k[kBatch], "q and k differ in batch"));
  PERI_TRY(same(q[kBatch], v[kBatch], "q and v differ in batch"));
  PERI_TRY(same(k[kHeads], v[kHeads], "k and v differ in heads"));
  PERI_TRY(same(k[kPlace], v[kPlace], "k and v differ in positions"));
  PERI_TRY(same(q[kDepth], k[kDepth], "q and k differ in depth"));
  if (q[kHeads].is_const() && k[kHeads].is_const() &&
      (k[kHeads].value() == 0 || q[kHeads].value() % k[kHeads].value() != 0))
    return invalid("the heads of k do not divide those of q")
        .expecting("a divisor of " + q[kHeads].text())
        .but_found(k[kHeads].text());
  if (c.has(3)) {
    const Shape scores = {q[kBatch], q[kHeads], q[kPlace], k[kPlace]};
    PERI_ASSIGN(const Shape wide, broadcast(c.shape(3), scores));
    bool fits = wide.size() == 4;
    for (size_t d = 0; fits && d < 4; ++d) fits = !scores[d].is_const() || wide[d] == scores[d];
    if (!fits)
      return invalid("the mask does not broadcast to the scores")
          .expecting(shape_text(scores))
          .but_found(shape_text(c.shape(3)));
    if (c.dtype(3) != DType::kBool && c.dtype(3) != DType::kF32 && c.dtype(3) != c.dtype(0))
      return invalid("the mask has a wrong type")
          .expecting("bool, f32 or " + std::string(dtype_name(c.dtype(0))))
          .but_found(std::string(dtype_name(c.dtype(3))));
  }
  PERI_ASSIGN(const std::string layout, layout_of(c.node, 3));
  Shape y;
  const std::array<Dim, 4> out = {q[kBatch], q[kHeads], q[kPlace], v[kDepth]};
  for (char letter : layout) y.push_back(out[kLetters.find(letter)]);
  for (size_t d : {kBatch, kHeads})
    if (layout.find(kLetters[d]) == std::string::npos && !out[d].is_const(1))
      return invalid("y_layout leaves an axis out")
          .expecting(std::string("'") + kLetters[d] + "' in y_layout")
          .but_found(layout);
  c.set(0, c.dtype(0), std::move(y));
  return Ok{};
}

// A concrete tensor seen by letters.
struct View {
  std::array<int64_t, 4> extent = {1, 1, 1, 1}, step = {0, 0, 0, 0};
  View(const ir::Node& node, size_t port, const ir::Value& value) {
    const std::string layout = *layout_of(node, port);
    const std::vector<int64_t> dims = concrete(value), strides = strides_of(dims);
    for (size_t k = 0; k < layout.size(); ++k) {
      extent[kLetters.find(layout[k])] = dims[k];
      step[kLetters.find(layout[k])] = strides[k];
    }
  }
  int64_t at(int64_t b, int64_t h, int64_t s, int64_t d) const {
    return b * step[kBatch] + h * step[kHeads] + s * step[kPlace] + d * step[kDepth];
  }
  std::array<int64_t, 4> letters(int64_t flat) const {
    std::array<int64_t, 4> at{};
    for (size_t k = 0; k < 4; ++k) at[k] = step[k] == 0 ? 0 : flat / step[k] % extent[k];
    return at;
  }
};

struct Problem {
  View q, k, v, y;
  std::vector<int64_t> scores, mask_steps;
  double scale, cap;
  bool causal, zero_hidden;
  int64_t causal_offset = 0;  // query i sees keys up to i + causal_offset
  explicit Problem(const ir::Node& n)
      : q(n, 0, *n.in(0)),
        k(n, 1, *n.in(1)),
        v(n, 2, *n.in(2)),
        y(n, 3, *n.out()),
        cap(n.f("softcap")),
        causal(n.i("causal") != 0),
        zero_hidden(n.i("zero_hidden_rows") != 0) {
    scores = {q.extent[kBatch], q.extent[kHeads], q.extent[kPlace], k.extent[kPlace]};
    scale = n.f("scale", 1 / std::sqrt(static_cast<double>(std::max<int64_t>(q.extent[kDepth], 1))));
    const std::vector<Dim>* const past = n.dims("past");
    causal_offset = past ? past->front().value() : scores[3] - scores[2];
    if (n.in(3)) mask_steps = broadcast_strides(concrete(*n.in(3)), scores);
  }
  int64_t kv_head(int64_t h) const { return h / (scores[1] / k.extent[kHeads]); }
  int64_t mask_at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return b * mask_steps[0] + h * mask_steps[1] + i * mask_steps[2] + j * mask_steps[3];
  }
};

// `rows` output rows from (b, h, first), whole depth each, into y and radius (row-major).
void rows_of(const RefCall& call, const Problem& p, int64_t b, int64_t h, int64_t first, int64_t rows, double* y,
             double* radius) {
  const int64_t keys = p.scores[3], kv = p.kv_head(h), depth = p.v.extent[kDepth];
  const RefTensor* mask = call.in.size() > 3 ? call.in[3] : nullptr;
  Scores s = scores_of(rows, keys, p.q.extent[kDepth],
                       side(*call.in[0], p.q.at(b, h, first, 0), p.q.step[kPlace], p.q.step[kDepth]),
                       side(*call.in[1], p.k.at(b, kv, 0, 0), p.k.step[kPlace], p.k.step[kDepth]), p.scale, call.u);
  if (p.cap > 0) cap_scores(s, p.cap, call.u);
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < keys; ++j) {
      if (p.causal && j > first + i + p.causal_offset) {
        add_to_score(s, i, j, kHidden, 0, call.u);
      } else if (mask) {
        const int64_t at = p.mask_at(b, h, first + i, j);
        if (mask->floating()) {
          add_to_score(s, i, j, mask->f[static_cast<size_t>(at)], mask->r(at), call.u);
        } else if (!mask->i[static_cast<size_t>(at)]) {
          add_to_score(s, i, j, kHidden, 0, call.u);
        }
      }
    }
  }
  soften(s, call.u, call.stored, p.zero_hidden);
  std::fill(y, y + rows * depth, 0.0);
  std::fill(radius, radius + rows * depth, 0.0);
  dense_product(rows, depth, keys, {s.value.data(), call.u > 0 ? s.radius.data() : nullptr, keys, 1},
                side(*call.in[2], p.v.at(b, kv, 0, 0), p.v.step[kPlace], p.v.step[kDepth]), call.u, keys, y, radius,
                depth);
}

void whole(RefCall& call, const Problem& p) {
  constexpr int64_t kRows = 64;  // queries of one task
  RefTensor& out = call.out[0];
  const int64_t chunks = (p.scores[2] + kRows - 1) / kRows, depth = p.v.extent[kDepth];
  parallel_for(call.threads, p.scores[0] * p.scores[1] * chunks, [&](int64_t begin, int64_t end) {
    std::vector<double> y(static_cast<size_t>(kRows * depth)), radius(y.size());
    for (int64_t task = begin; task < end; ++task) {
      const int64_t b = task / chunks / p.scores[1], h = task / chunks % p.scores[1], first = task % chunks * kRows,
                    rows = std::min(kRows, p.scores[2] - first);
      rows_of(call, p, b, h, first, rows, y.data(), radius.data());
      for (int64_t n = 0; n < rows * depth; ++n) {
        const size_t to = static_cast<size_t>(p.y.at(b, h, first + n / depth, n % depth));
        out.f[to] = y[static_cast<size_t>(n)];
        out.radius[to] = radius[static_cast<size_t>(n)];
      }
    }
  });
}

void at_positions(RefCall& call, const Problem& p) {
  RefTensor& out = call.out[0];
  const int64_t depth = p.v.extent[kDepth];
  struct Wanted {
    int64_t row, place, d;  // row: flat over batch, heads, queries
  };
  std::vector<Wanted> wanted;
  for (int64_t place : call.positions) {
    const auto at = p.y.letters(place);
    wanted.push_back({(at[kBatch] * p.scores[1] + at[kHeads]) * p.scores[2] + at[kPlace], place, at[kDepth]});
  }
  std::sort(wanted.begin(), wanted.end(), [](const Wanted& a, const Wanted& b) { return a.row < b.row; });
  parallel_for(call.threads, static_cast<int64_t>(wanted.size()), [&](int64_t begin, int64_t end) {
    std::vector<double> y(static_cast<size_t>(depth)), radius(y.size());
    int64_t held = -1;
    for (int64_t n = begin; n < end; ++n) {
      const Wanted& w = wanted[static_cast<size_t>(n)];
      if (w.row != held)
        rows_of(call, p, w.row / p.scores[2] / p.scores[1], w.row / p.scores[2] % p.scores[1], w.row % p.scores[2], 1,
                y.data(), radius.data());
      held = w.row;
      out.f[static_cast<size_t>(w.place)] = y[static_cast<size_t>(w.d)];
      out.radius[static_cast<size_t>(w.place)] = radius[static_cast<size_t>(w.d)];
    }
  });
}

Status reference(RefCall& call) {
  if (call.out[0].numel() == 0) return Ok{};
  const Problem p(call.node);
  if (call.positions.empty()) {
    whole(call, p);
  } else {
    at_positions(call, p);
  }
  settle_radii(call.out[0], call.positions);
  return Ok{};
}

// q: the rows asked for; k: their heads; v: the depths asked for in them; mask: the rows of scores.
bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  const Problem p(node);
  const std::vector<int64_t> dims = concrete(*node.in(port));
  PositionSet set(span_of(dims, 0, dims.size())),
      done(p.scores[0] * p.scores[1] * std::max(p.scores[2], p.v.extent[kDepth]));
  for (int64_t place : positions) {
    const auto [b, h, i, d] = p.y.letters(place);
    const int64_t kv = p.kv_head(h), head = b * p.scores[1] + (port == 0 || port == 3 ? h : kv);
    const int64_t key = port == 0 || port == 3 ? head * p.scores[2] + i
                        : port == 1            ? head
                                               : head * p.v.extent[kDepth] + d;
    if (done.contains(key)) continue;
    done.add(key);
    if (port == 0)
      for (int64_t e = 0; e < p.q.extent[kDepth]; ++e) set.add(p.q.at(b, h, i, e));
    for (int64_t j = 0; port > 0 && j < p.scores[3]; ++j) {
      if (port == 2) set.add(p.v.at(b, kv, j, d));
      if (port == 3) set.add(p.mask_at(b, h, i, j));
      for (int64_t e = 0; port == 1 && e < p.k.extent[kDepth]; ++e) set.add(p.k.at(b, kv, j, e));
    }
  }
  set.list(needed);
  return true;
}

Cost cost(const ir::Node& node) {
  Cost c = traffic_of(node);
  const auto q = extents(node, 0, *node.in(0)->type.shape), k = extents(node, 1, *node.in(1)->type.shape),
             v = extents(node, 2, *node.in(2)->type.shape);
  if (!q.ok() || !k.ok() || !v.ok()) return c;
  auto number = [](const Dim& d) { return static_cast<double>(d.is_const() ? d.value() : 1); };
  const double scores = number((*q)[kBatch]) * number((*q)[kHeads]) * number((*q)[kPlace]) * number((*k)[kPlace]);
  c.flops = scores * (2 * number((*q)[kDepth]) + 2 * number((*v)[kDepth]) + 5) * (node.i("causal") ? 0.5 : 1);
  return c;
}

bool any_size(const ir::Node& node) {
  const auto q = extents(node, 0, shape_of(node.in(0))), k = extents(node, 1, shape_of(node.in(1))),
             v = extents(node, 2, shape_of(node.in(2)));
  if (!q.ok() || !k.ok() || !v.ok()) return false;
  const bool same = (*q)[kBatch] == (*k)[kBatch] && (*q)[kBatch] == (*v)[kBatch] && (*k)[kHeads] == (*v)[kHeads] &&
                    (*k)[kPlace] == (*v)[kPlace] && (*q)[kDepth] == (*k)[kDepth];
  return same && (*q)[kHeads].is_const() && (*k)[kHeads].is_const() &&
         (!node.in(3) || aligned(shape_of(node.in(3)), Shape{(*q)[kBatch], (*q)[kHeads], (*q)[kPlace], (*k)[kPlace]}));
}

}  // namespace

extern const Entry attention_entry;
const Entry attention_entry{{
    {.name = "attention",
     .onnx = "",
     .domain = "peri",
     .inputs = {{"q", kFloats},
                {"k", kFloats, false, false, 0},
                {"v", kFloats, false, false, 0},
                {"mask", kFloats | kBools, true, false, -1, Role::kData, true}},
     .outputs = {{"y"}},
     .attrs = {{"causal", AttrKind::kInt, false, "0"},
               {"k_layout", AttrKind::kString, false, "bhsd"},
               {"past", AttrKind::kDims, false, "keys - queries: the last query sees the last key"},
               {"q_layout", AttrKind::kString, false, "bhsd"},
               {"scale", AttrKind::kFloat, false, "1 / sqrt(depth)"},
               {"softcap", AttrKind::kFloat, false, "0: none"},
               {"v_layout", AttrKind::kString, false, "bhsd"},
               {"y_layout", AttrKind::kString, false, "bhsd"},
               {"zero_hidden_rows", AttrKind::kInt, false, "0: a query that sees no key gives NaN"}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost,
     .anchor = true,
     .stores = "probabilities",
     .any_size = any_size,
     .samples =
         {"graph { input q: f32[2,3,5,8]; input k: f32[2,3,7,8]; input v: f32[2,3,7,4]; y = attention(q, k, v); "
          "output y }",
          "graph { input q: f32[2,6,4,8]; input k: f32[2,6,4,8]; input v: f32[2,6,4,8]; input m: f32[2,1,1,6]; "
          "y = attention(q, k, v, m) {k_layout=\"bshd\", q_layout=\"bshd\", scale=0.5, v_layout=\"bshd\", "
          "y_layout=\"bshd\"}; output y }",
          "graph { input q: f32[1,4,5,8]; input k: f32[1,2,8,6]; input v: f32[1,2,6,8]; y = attention(q, k, v) "
          "{causal=1, k_layout=\"bhds\"}; output y }",
          "graph { input q: f32[2,4,8]; input k: f32[2,4,8]; input v: f32[2,4,8]; const m: bool[4,4] = [1, 0, "
          "0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1]; y = attention(q, k, v, m) {k_layout=\"hsd\", "
          "q_layout=\"hsd\", v_layout=\"hsd\", y_layout=\"hsd\"}; output y }",
          "graph { input q: f32[1,1,3,4]; input k: f32[1,1,2,4]; input v: f32[1,1,2,4]; y = attention(q, k, v) "
          "{causal=1, zero_hidden_rows=1}; output y }",
          "graph { input q: f32[1,2,70,8]; input k: f32[1,2,3,8]; input v: f32[1,2,3,8]; y = attention(q, k, v) "
          "{causal=1, past=dims[0]}; output y }",
          "graph { input q: f32[2,3,4,8]; input k: f32[2,90,2,8]; input v: f32[2,90,2,8]; input m: f32[3,90]; y = "
          "attention(q, k, v, m) {causal=1, k_layout=\"bshd\", past=dims[0], q_layout=\"bshd\", "
          "v_layout=\"bshd\", y_layout=\"bshd\"}; output y }",
          "graph { input q: f32[1,2,70,8]; input k: f32[1,2,9,8]; input v: f32[1,2,9,8]; y = attention(q, k, v) "
          "{causal=1, past=dims[4], softcap=0.5}; output y }",
          "graph { input q: f16[1,2,5,16]; input k: f16[1,1,5,16]; input v: f16[1,1,5,16]; input m: f16[5,5]; y = "
          "attention(q, k, v, m) {causal=1, past=dims[2], softcap=1.5}; output y }",
          "graph { input q: f16[1,2,4,16]; input k: f16[1,2,4,16]; input v: f16[1,2,4,16]; y = attention(q, k, "
          "v); output y }",
          "graph { input q: f16[1,2,4,8]; input k: f16[1,2,6,8]; input v: f16[1,2,6,8]; const m: f32[2,1,6] = [0.0, "
          "-3.4e38, 0.0, -3.4e38, 0.0, -3.4e38, -3.4e38, -3.4e38, -3.4e38, -3.4e38, -3.4e38, -3.4e38]; y = "
          "attention(q, k, v, m); output y }",
          "graph { input q: f32[0,2,4,16]; input k: f32[0,2,4,16]; input v: f32[0,2,4,16]; y = attention(q, k, "
          "v); output y }",
          "graph { input q: f32[1,2,1,64]; input k: f32[1,2,130,64]; input v: f32[1,2,130,64]; y = attention(q, "
          "k, v); output y }"}},
}};
}  // namespace peri::ops
