// GroupNormalization and InstanceNormalization: groups of channels (single channels for the latter) normalised to unit
// deviation over the group's channels and all positions, then scaled and shifted per channel.
#include "ops/reference/cost.hpp"
#include "ops/reference/norm.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/reference/position_set.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"
#include "ops/shape/upgrade.hpp"

namespace peri::ops {
namespace {

// Number of channels per group for version 18: a constant where the channels are known, else computed from the shape of
// x.
Result<ir::Value*> wide_shape(ir::Graph& graph, const ir::Node& node, int64_t groups) {
  const ir::Type& x = node.in(0)->type;
  if (x.shape && x.shape->size() > 1 && (*x.shape)[1].is_const()) {
    const int64_t channels = (*x.shape)[1].value();
    if (channels % groups != 0)
      return invalid("num_groups does not divide the channels")
          .at_node(node.name)
          .expecting("a divisor of " + std::to_string(channels))
          .but_found(std::to_string(groups));
    const std::vector<int64_t> wide = {groups, channels / groups};
    return ints_constant(graph, "wide", wide);
  }
  const std::vector<int64_t> one = {1}, count = {groups};
  ir::Value* channels =
      graph.add("gather", {graph.add("shape", {node.in(0)})->out(), ints_constant(graph, "one", one)})->out();
  ir::Value* number = ints_constant(graph, "groups", count);
  ir::Value* each = graph.add("div", {channels, number})->out();
  return graph.add("concat", {number, each}, {{"axis", int64_t{0}}})->out();
}

// Version 18 had one scale and bias a group: each is repeated for the channels of its group.
Status upgrade(ir::Graph& graph, ir::Node& node, int opset) {
  if (opset >= 21 || !node.in(0)) return Ok{};
  const int64_t groups = node.i("num_groups", 1);
  if (groups < 1)
    return invalid("num_groups is out of range").at_node(node.name).expecting(">= 1").but_found(std::to_string(groups));
  PERI_ASSIGN(ir::Value * wide, wide_shape(graph, node, groups));
  for (size_t port : {size_t{1}, size_t{2}}) {
    if (!node.in(port)) continue;
    const std::vector<int64_t> column = {groups, 1}, flat = {-1};
    ir::Value* v = graph.add("reshape", {node.in(port), ints_constant(graph, "column", column)})->out();
    v = graph.add("expand", {v, wide})->out();
    graph.set_input(&node, port, graph.add("reshape", {v, ints_constant(graph, "flat", flat)})->out());
  }
  return Ok{};
}

Status infer(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.size() < 2)
    return invalid("x has a wrong rank").expecting("[batch, channels, spatial...], rank >= 2").but_found(shape_text(x));
  if (c.node.op == "group_normalization") {
    const int64_t groups = c.node.i("num_groups");
    if (groups < 1 || (x[1].is_const() && x[1].value() % groups != 0))
      return invalid("num_groups does not divide the channels")
          .expecting("a divisor of " + x[1].text())
          .but_found(std::to_string(groups));
    const int64_t stash = c.node.i("stash_type", 1);
    if (stash != 1 && stash != 10 && stash != 11 && stash != 16)
      return invalid("stash_type is not a float type").expecting("1, 10, 11 or 16").but_found(std::to_string(stash));
  }
  for (size_t k : {size_t{1}, size_t{2}}) {
    const Shape& s = c.shape(k);
    if (s.size() != 1 || (s[0].is_const() && x[1].is_const() && !(s[0] == x[1])))
      return invalid("%s has a wrong shape", k == 1 ? "scale" : "bias")
          .expecting("[" + x[1].text() + "]")
          .but_found(shape_text(s));
  }
  c.set(0, c.dtype(0), x);
  return Ok{};
}

// Elements of one channel, and of one group.
struct Sizes {
  int64_t image, group, channels;
  Sizes(const ir::Node& node, const std::vector<int64_t>& x) : image(span_of(x, 2, x.size())), channels(x[1]) {
    group = node.op == "group_normalization" ? image * (channels / node.i("num_groups")) : image;
  }
};

Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  if (x.numel() == 0) return Ok{};
  const Sizes s(call.node, x.dims);
  const double epsilon = call.node.f("epsilon", kDefaultEpsilon);
  const double u = call.node.op == "group_normalization" ? stage_roundoff(call) : call.u;
  const int64_t groups = x.numel() / s.group;
  std::vector<Moments> m(static_cast<size_t>(groups));
  std::vector<char> asked(m.size(), call.positions.empty());
  for (int64_t p : call.positions) asked[static_cast<size_t>(p / s.group)] = 1;
  parallel_for(call.threads, groups, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g)
      if (asked[static_cast<size_t>(g)])
        m[static_cast<size_t>(g)] = moments(x, s.group, true, u, [&](int64_t k) { return g * s.group + k; });
  });
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t at = call.position(n), c = at / s.image % s.channels;
    const Moments& of = m[static_cast<size_t>(at / s.group)];
    store(call.out[0], at,
          normalised(element(&x, at, 0), of.mean, inverse_root(of.square, epsilon, u), element(call.in[1], c, 1),
                     element(call.in[2], c, 0), u));
  }
  return Ok{};
}

bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  const std::vector<int64_t> x = concrete(*node.in(0));
  const Sizes s(node, x);
  PositionSet set(port == 0 ? span_of(x, 0, x.size()) : s.channels);
  int64_t held = -1;
  for (int64_t p : positions) {
    if (port > 0) {
      set.add(p / s.image % s.channels);
    } else if (p / s.group != held) {
      held = p / s.group;
      set.add_range(held * s.group, (held + 1) * s.group);
    }
  }
  set.list(needed);
  return true;
}

Cost cost(const ir::Node& node) { return cost_per_element(node, 8); }

}  // namespace

extern const Entry group_normalization_entry;
const Entry group_normalization_entry{{
    {.name = "group_normalization",
     .onnx = "GroupNormalization",
     .versions = {18, 21},
     .inputs = {{"x", kFloats},
                {"scale", kFloats, false, false, 0, Role::kScale},
                {"bias", kFloats, false, false, 0, Role::kBias}},
     .outputs = {{"y"}},
     .attrs = {{"epsilon", AttrKind::kFloat, false, "1e-05"},
               {"num_groups", AttrKind::kInt, true},
               {"stash_type", AttrKind::kInt, false, "1 (float)"}},
     .upgrade = upgrade,
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost,
     .keeps_range = true,
     .samples = {"graph { input x: f32[2,6,4,3]; const s: f32[6] = seeded(1.0, 1); const b: f32[6] = seeded(0.5, 2); y "
                 "= group_normalization(x, s, b) {num_groups=3}; output y }",
                 "graph { input x: f32[2,4]; const s: f32[4] = seeded(1.0, 1); const b: f32[4] = seeded(0.5, 2); y = "
                 "group_normalization(x, s, b) {epsilon=0.1, num_groups=1}; output y }",
                 "graph { input x: f16[1,4,8]; const s: f16[4] = seeded(1.0, 1); const b: f16[4] = seeded(0.5, 2); y = "
                 "group_normalization(x, s, b) {num_groups=2}; output y }",
                 "graph { input x: f32[0,4,8]; const s: f32[4] = seeded(1.0, 1); const b: f32[4] = seeded(0.5, 2); y = "
                 "group_normalization(x, s, b) {num_groups=2}; output y }"}},
    {.name = "instance_normalization",
     .onnx = "InstanceNormalization",
     .versions = {6, 22},
     .inputs = {{"x", kFloats},
                {"scale", kFloats, false, false, 0, Role::kScale},
                {"bias", kFloats, false, false, 0, Role::kBias}},
     .outputs = {{"y"}},
     .attrs = {{"epsilon", AttrKind::kFloat, false, "1e-05"}},
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost,
     .keeps_range = true,
     .samples = {"graph { input x: f32[2,3,5,4]; const s: f32[3] = seeded(1.0, 1); const b: f32[3] = seeded(0.5, 2); y "
                 "= instance_normalization(x, s, b); output y }",
                 "graph { input x: f32[2,3,8]; const s: f32[3] = seeded(1.0, 1); const b: f32[3] = seeded(0.5, 2); y = "
                 "instance_normalization(x, s, b) {epsilon=0.01}; output y }",
                 "graph { input x: f32[0,3,8]; const s: f32[3] = seeded(1.0, 1); const b: f32[3] = seeded(0.5, 2); y = "
                 "instance_normalization(x, s, b); output y }"}},
}};
}  // namespace peri::ops
