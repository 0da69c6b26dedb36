// LinearAttention: per head a state of keys by values, which every position decays, corrects and adds to, and which the
// queries read. Groups of query heads share the head of a key.
#include <algorithm>
#include <cmath>

#include "ops/reference/cell.hpp"
#include "ops/reference/cost.hpp"
#include "ops/reference/dense.hpp"
#include "ops/reference/elements.hpp"
#include "ops/reference/norm.hpp"
#include "ops/reference/parallel.hpp"

namespace peri::ops {
namespace {
enum : size_t { kQuery, kKey, kValue, kPast, kDecay, kBeta };

// What its update rule does.
struct Rule {
  bool gated = false, delta = false;
};
Result<Rule> rule_of(const ir::Node& node) {
  const std::string name = node.s("update_rule", "gated_delta");
  if (name == "linear") return Rule{};
  if (name == "gated") return Rule{true, false};
  if (name == "delta") return Rule{false, true};
  if (name == "gated_delta") return Rule{true, true};
  return invalid("update_rule is unknown").expecting("linear, gated, delta or gated_delta").but_found(name);
}

Status check_heads(const InferContext& c, const Shape& q, const Shape& k, const Shape& v) {
  const int64_t heads = c.node.i("q_num_heads"), shared = c.node.i("kv_num_heads");
  if (heads < 1 || shared < 1 || heads % shared != 0)
    return invalid("q_num_heads is not a multiple of kv_num_heads")
        .but_found(format("%lld and %lld", static_cast<long long>(heads), static_cast<long long>(shared)));
  for (const auto& [width, by] : {std::pair{q[2], heads}, std::pair{k[2], shared}, std::pair{v[2], shared}})
    if (width.is_const() && width.value() % by != 0)
      return invalid("the heads do not divide a width").expecting(std::to_string(by)).but_found(width.text());
  return Ok{};
}

Status infer(InferContext& c) {
  PERI_ASSIGN(const Rule rule, rule_of(c.node));
  for (const size_t k : {kQuery, kKey, kValue})
    if (c.rank(k) != 3)
      return invalid("an input has a wrong shape")
          .expecting("[batch, places, heads * depth]")
          .but_found(shape_text(c.shape(k)));
  const Shape &q = c.shape(kQuery), &k = c.shape(kKey), &v = c.shape(kValue);
  PERI_TRY(check_heads(c, q, k, v));
  if (c.has(kDecay) != rule.gated || c.has(kBeta) != rule.delta)
    return invalid("decay or beta is missing, or there without being used")
        .expecting(c.node.s("update_rule", "gated_delta") + (rule.gated ? " with" : " without") + " decay and" +
                   (rule.delta ? " with" : " without") + " beta");
  const Dim heads(c.node.i("q_num_heads")), shared(c.node.i("kv_num_heads"));
  const Dim keys = floordiv(q[2], heads), values = floordiv(v[2], shared);
  PERI_TRY(expect_shape(c, kKey, "key", {q[0], q[1], keys * shared}));
  PERI_TRY(expect_shape(c, kValue, "value", {q[0], q[1], v[2]}));
  PERI_TRY(expect_shape(c, kPast, "past_state", {q[0], shared, keys, values}));
  for (const size_t port : {kDecay, kBeta}) {
    if (!c.has(port)) continue;
    PERI_TRY(expect_shape(c, port, port == kDecay ? "decay" : "beta", {q[0], q[1], Dim::symbol("width")}));
    const Dim& width = c.shape(port).back();
    const Dim other = port == kDecay ? keys * shared : Dim(1);
    PERI_TRY(expect_shape(c, port, port == kDecay ? "decay" : "beta", {q[0], q[1], width == other ? other : shared}));
  }
  c.set(0, c.dtype(kQuery), {q[0], q[1], heads * values});
  if (c.out.size() > 1) c.set(1, c.has(kPast) ? c.dtype(kPast) : c.dtype(kQuery), {q[0], shared, keys, values});
  return Ok{};
}

// One head of keys and values through all places, for the queries that share it.
struct Head {
  const RefCall& call;
  Rule rule;
  int64_t batch, head, places, keys, values, shared, group;
  double scale;
  std::vector<Near> state;  // [keys, values]

  Near in(size_t port, int64_t place, int64_t width, int64_t at) const {
    return element(call.in[port], (batch * places + place) * width + at, 0);
  }
  Near& at(int64_t k, int64_t v) { return state[static_cast<size_t>(k * values + v)]; }

  void decay(int64_t place) {
    const int64_t width = call.in[kDecay]->dims[2];
    for (int64_t k = 0; k < keys; ++k) {
      const Near g = in(kDecay, place, width, width == shared ? head : head * keys + k);
      const double e = std::exp(g.v), moved = e * std::expm1(g.r);
      const Near factor{e, moved + 4 * call.u * e};
      for (int64_t v = 0; v < values; ++v) {
        Near& s = at(k, v);
        s = times(s, factor);
        s.r += call.u * std::fabs(s.v);
      }
    }
  }
  void add(int64_t place) {
    for (int64_t v = 0; v < values; ++v) {
      Near value = in(kValue, place, shared * values, head * values + v);
      if (rule.delta) {
        ProductSum held;
        for (int64_t k = 0; k < keys; ++k) {
          const Near key = in(kKey, place, shared * keys, head * keys + k), s = at(k, v);
          held.add(s.v, s.r, key.v, key.r);
        }
        const int64_t width = call.in[kBeta]->dims[2];
        const double difference = value.v - held.value;
        const Near rest{difference,
                        value.r + held.radius(call.u, keys) + call.u * (std::fabs(value.v) + std::fabs(held.value))};
        value = times(rest, in(kBeta, place, width, width == 1 ? 0 : head));
        value.r += call.u * std::fabs(value.v);
      }
      for (int64_t k = 0; k < keys; ++k) {
        const Near more = times(in(kKey, place, shared * keys, head * keys + k), value);
        Near& s = at(k, v);
        s = {s.v + more.v, s.r + more.r + call.u * (std::fabs(s.v) + 2 * std::fabs(more.v))};
      }
    }
  }
  void read(int64_t place, RefTensor& y) {
    const int64_t heads = shared * group;
    for (int64_t q = head * group; q < (head + 1) * group; ++q)
      for (int64_t v = 0; v < values; ++v) {
        ProductSum sum;
        for (int64_t k = 0; k < keys; ++k) {
          const Near query = in(kQuery, place, heads * keys, q * keys + k), s = at(k, v);
          sum.add(query.v, query.r, s.v, s.r);
        }
        const double value = sum.value * scale;
        store(y, ((batch * places + place) * heads + q) * values + v,
              {value, std::fabs(scale) * sum.radius(call.u, keys) + 2 * call.u * std::fabs(value)});
      }
  }
};

// The data holds the sizes that were inferred.
Status check_sizes(const RefCall& call, int64_t heads, int64_t shared) {
  const auto dims = [&](size_t k) {
    return call.in.size() > k && call.in[k] ? call.in[k]->dims : std::vector<int64_t>();
  };
  const std::vector<int64_t> q = dims(kQuery), k = dims(kKey), v = dims(kValue);
  const auto fits = [&](const std::vector<int64_t>& d, int64_t one, int64_t other) {
    return d.empty() || (d.size() == 3 && d[0] == q[0] && d[1] == q[1] && (d[2] == one || d[2] == other));
  };
  const int64_t keys = q[2] / heads, values = v[2] / shared;
  const std::vector<int64_t> past = dims(kPast), state = {q[0], shared, keys, values};
  if (q[2] % heads == 0 && fits(k, keys * shared, keys * shared) && fits(v, values * shared, values * shared) &&
      fits(dims(kDecay), shared, keys * shared) && fits(dims(kBeta), shared, 1) && (past.empty() || past == state))
    return Ok{};
  return invalid("the sizes of a linear attention do not fit each other");
}

Status reference(RefCall& call) {
  PERI_ASSIGN(const Rule rule, rule_of(call.node));
  PERI_TRY(check_sizes(call, call.node.i("q_num_heads"), call.node.i("kv_num_heads")));
  const RefTensor &q = *call.in[kQuery], &v = *call.in[kValue];
  const RefTensor* past = call.in.size() > kPast ? call.in[kPast] : nullptr;
  const int64_t heads = call.node.i("q_num_heads"), shared = call.node.i("kv_num_heads");
  const int64_t keys = q.dims[2] / heads, values = v.dims[2] / shared;
  const double said = call.node.f("scale", 0), scale = said != 0 ? said : 1 / std::sqrt(static_cast<double>(keys));
  parallel_for(call.threads, q.dims[0] * shared, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      Head h{call, rule, n / shared, n % shared, q.dims[1], keys, values, shared, heads / shared, scale, {}};
      for (int64_t k = 0; k < keys * values; ++k) h.state.push_back(element(past, n * keys * values + k, 0));
      for (int64_t place = 0; place < h.places; ++place) {
        if (rule.gated) h.decay(place);
        h.add(place);
        h.read(place, call.out[0]);
      }
      for (int64_t k = 0; call.out.size() > 1 && k < keys * values; ++k)
        store(call.out[1], n * keys * values + k, h.state[static_cast<size_t>(k)]);
    }
  });
  return Ok{};
}

Cost cost(const ir::Node& node) {
  Cost c = traffic_of(node);
  const double depth = elements_of(*node.in(kQuery)) / std::max(1.0, static_cast<double>(node.i("q_num_heads")));
  c.flops = 8 * depth * elements_of(*node.in(kValue)) / std::max(1.0, elements_of(*node.in(kQuery))) * depth;
  return c;
}
}  // namespace

extern const Entry linear_attention_entry;
const Entry linear_attention_entry{{
    {.name = "linear_attention",
     .onnx = "LinearAttention",
     .versions = {27},
     .inputs = {{"query", kFloats},
                {"key", kFloats, false, false, 0},
                {"value", kFloats, false, false, 0},
                {"past_state", kFloats, true},
                {"decay", kFloats, true, false, 0},
                {"beta", kFloats, true, false, 0}},
     .outputs = {{"y"}, {"present_state", kFloats, true}},
     .attrs = {{"q_num_heads", AttrKind::kInt, true},
               {"kv_num_heads", AttrKind::kInt, true},
               {"chunk_size", AttrKind::kInt, false, "64"},
               {"scale", AttrKind::kFloat, false, "1 / sqrt(depth of keys)"},
               {"update_rule", AttrKind::kString, false, "gated_delta"}},
     .infer = infer,
     .reference = reference,
     .cost = cost,
     .samples =
         {"graph { input q: f32[1,3,4]; input k: f32[1,3,4]; input v: f32[1,3,6]; y, s = linear_attention(q, k, v) "
          "{q_num_heads=2, kv_num_heads=2, update_rule=\"linear\"}; output y; output s }",
          "graph { input q: f32[2,2,8]; input k: f32[2,2,4]; input v: f32[2,2,3]; input p: f32[2,1,4,3]; input g: "
          "f32[2,2,4]; input b: f32[2,2,1]; y, s = linear_attention(q, k, v, p, g, b) {q_num_heads=2, kv_num_heads=1, "
          "scale=0.5}; output y; output s }",
          "graph { input q: f32[1,4,4]; input k: f32[1,4,4]; input v: f32[1,4,4]; input b: f32[1,4,2]; y = "
          "linear_attention(q, k, v, _, _, b) {q_num_heads=2, kv_num_heads=2, update_rule=\"delta\"}; output y }",
          "graph { input q: f32[1,2,4]; input k: f32[1,2,4]; input v: f32[1,2,4]; input g: f32[1,2,2]; y = "
          "linear_attention(q, k, v, _, g) {q_num_heads=2, kv_num_heads=2, update_rule=\"gated\"}; output y }"}},
}};
}  // namespace peri::ops
