// BatchNormalization: y = (x - mean) / sqrt(var + epsilon) * scale + bias, with one value of each per channel: the
// given statistics, or in training mode those of x, which then also update the running mean and variance.
#include <algorithm>

#include "ops/reference/cost.hpp"
#include "ops/reference/norm.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/reference/position_set.hpp"
#include "ops/shape/any_size.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"

namespace peri::ops {
namespace {

// `spatial` of 1 is the current meaning. Before version 14 the number of outputs distinguished training from inference;
// those extra outputs differ from the current ones and must be unused.
Status upgrade(ir::Graph& graph, ir::Node& node, int opset) {
  if (opset < 9 && node.i("spatial", 1) != 1)
    return unsupported("BatchNormalization with spatial = 0 is not supported")
        .at_node(node.name)
        .expecting("spatial = 1")
        .advise("export the model at opset 9 or later, which has no other form");
  node.attrs.erase("spatial");
  if (node.i("training_mode") != 0 && opset >= 14) return Ok{};
  for (size_t k = 1; k < node.outputs.size(); ++k)
    if (!node.outputs[k]->users.empty() || graph.is_output(node.outputs[k]))
      return unsupported("the statistics of BatchNormalization are used")
          .at_node(node.name)
          .expecting("only its first output in use")
          .advise("put the model into evaluation mode before exporting it");
  while (node.outputs.size() > 1) {
    node.outputs.back()->producer = nullptr;
    node.outputs.pop_back();
  }
  node.attrs.erase("training_mode");
  node.attrs.erase("momentum");
  return Ok{};
}

Status infer(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.empty()) return invalid("x is a scalar").expecting("[batch, channels, spatial...]");
  const Dim channels = x.size() > 1 ? x[1] : Dim(1);
  constexpr std::string_view kNames[] = {"x", "scale", "bias", "mean", "var"};
  for (size_t k = 1; k < 5; ++k) {
    const Shape& s = c.shape(k);
    if (s.size() != 1 || (s[0].is_const() && channels.is_const() && !(s[0] == channels)))
      return invalid("%s has a wrong shape", std::string(kNames[k]).c_str())
          .expecting("[" + channels.text() + "]")
          .but_found(shape_text(s));
  }
  if (c.node.i("training_mode") == 0 && c.node.outputs.size() > 1)
    return invalid("batch_normalization has running statistics in training mode only").expecting("one output");
  for (size_t k = 1; k < 3; ++k) c.set(k, c.dtype(3), {channels});
  c.set(0, c.dtype(0), x);
  return Ok{};
}

// Mean and variance of every channel of x: sums over batch and places, in float at least.
std::vector<Moments> statistics(const RefCall& call, int64_t channels, int64_t image) {
  const RefTensor& x = *call.in[0];
  const double u = call.u == 0 ? 0 : std::max(call.u, unit_roundoff(DType::kF32));
  const int64_t count = channels * image == 0 ? 0 : x.numel() / channels;
  std::vector<Moments> m(static_cast<size_t>(channels));
  parallel_for(call.threads, channels, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c)
      m[static_cast<size_t>(c)] =
          moments(x, count, true, u, [&](int64_t k) { return (k / image * channels + c) * image + k % image; });
  });
  return m;
}

// running * momentum + current * (1 - momentum)
void update(RefCall& call, size_t output, const RefTensor& running, int64_t c, Near current) {
  const double momentum = call.node.f("momentum", 0.9F);
  const Near old = element(&running, c, 0);
  const double a = old.v * momentum, b = current.v * (1 - momentum);
  store(call.out[output], c,
        {a + b, old.r * std::fabs(momentum) + current.r * std::fabs(1 - momentum) +
                    4 * call.u * (std::fabs(a) + std::fabs(b))});
}

Status reference(RefCall& call) {
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  const double epsilon = call.node.f("epsilon", kDefaultEpsilon), u = call.u;
  const int64_t channels = x.dims.size() > 1 ? x.dims[1] : 1,
                image = x.dims.size() > 1 ? std::max<int64_t>(1, span_of(x.dims, 2, x.dims.size())) : 1;
  const bool training = call.node.i("training_mode") != 0;
  std::vector<Near> factor, means;
  const std::vector<Moments> own = training ? statistics(call, channels, image) : std::vector<Moments>{};
  for (int64_t c = 0; c < channels; ++c) {
    const size_t k = static_cast<size_t>(c);
    means.push_back(training ? own[k].mean : element(call.in[3], c, 0));
    const Near variance = training ? own[k].square : element(call.in[4], c, 0);
    factor.push_back(inverse_root(variance, epsilon, u));
    if (call.out.size() > 1) update(call, 1, *call.in[3], c, means[k]);
    if (call.out.size() > 2) update(call, 2, *call.in[4], c, variance);
  }
  for (int64_t n = 0; n < call.count(); ++n) {
    const int64_t at = call.position(n), c = at / image % channels;
    const Near scale = element(call.in[1], c, 1), mean = means[static_cast<size_t>(c)],
               shift = element(call.in[2], c, 0);
    Near v = normalised(element(&x, at, 0), mean, factor[static_cast<size_t>(c)], scale, shift, u);
    // x * a + (bias - mean * a) is as good.
    v.r += 4 * u * std::fabs(factor[static_cast<size_t>(c)].v * scale.v) *
           (std::fabs(x.f[static_cast<size_t>(at)]) + std::fabs(mean.v));
    store(y, at, v);
  }
  return Ok{};
}

bool pull(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  if (node.i("training_mode") != 0) return false;
  if (port == 0) {
    needed->assign(positions.begin(), positions.end());
    return true;
  }
  const std::vector<int64_t> x = concrete(*node.in(0));
  const int64_t channels = x.size() > 1 ? x[1] : 1, image = x.size() > 1 ? span_of(x, 2, x.size()) : 1;
  PositionSet set(channels);
  for (int64_t p : positions) set.add(p / image % channels);
  set.list(needed);
  return true;
}

Cost cost(const ir::Node& node) { return cost_per_element(node, 4); }

}  // namespace

extern const Entry batch_normalization_entry;
const Entry batch_normalization_entry{{
    {.name = "batch_normalization",
     .onnx = "BatchNormalization",
     .versions = {7, 9, 14, 15},
     .inputs = {{"x", kFloats},
                {"scale", kFloats, false, false, -1, Role::kScale, true},
                {"bias", kFloats, false, false, 1, Role::kBias, true},
                {"mean", kFloats, false, false, -1, Role::kBias, true},
                {"var", kFloats, false, false, 3, Role::kVariance, true}},
     .outputs = {{"y"}, {"running_mean", kFloats, true}, {"running_var", kFloats, true}},
     .attrs = {{"epsilon", AttrKind::kFloat, false, "1e-05"},
               {"momentum", AttrKind::kFloat, false, "0.9; has no effect at inference"},
               {"training_mode", AttrKind::kInt, false, "0"}},
     .upgrade = upgrade,
     .infer = infer,
     .reference = reference,
     .pull = pull,
     .cost = cost,
     .keeps_range = true,
     .any_size = any_size_of_batch,
     .samples =
         {"graph { input x: f32[2,3,4,5]; const s: f32[3] = [1.0, -0.5, 2.0]; const b: f32[3] = [0.1, 0.2, -0.3]; "
          "const m: f32[3] = [0.5, -1.0, 0.0]; const v: f32[3] = [1.0, 0.25, 4.0]; "
          "y = batch_normalization(x, s, b, m, v) {epsilon=0.001}; output y }",
          "graph { input x: f32[7,2]; const s: f32[2] = [1.0, 3.0]; const b: f32[2] = [0.0, 1.0]; const m: f32[2] = "
          "[0.5, 2.0]; const v: f32[2] = [0.0, 1.5]; y = batch_normalization(x, s, b, m, v); output y }",
          "graph { input x: f16[1,2,3]; const s: f32[2] = [1.0, 3.0]; const b: f32[2] = [0.0, 1.0]; const m: f32[2] = "
          "[0.5, 2.0]; const v: f32[2] = [0.5, 1.5]; y = batch_normalization(x, s, b, m, v); output y }",
          "graph { input x: f32[0,1,3]; const s: f32[1] = [1.0]; const b: f32[1] = [0.0]; const m: f32[1] = [0.5]; "
          "const v: f32[1] = [0.5]; y = batch_normalization(x, s, b, m, v); output y }",
          "graph { input x: f32[2,3,4]; const s: f32[3] = [1.0, -0.5, 2.0]; const b: f32[3] = [0.1, 0.2, -0.3]; const "
          "m: "
          "f32[3] = [0.5, -1.0, 0.0]; const v: f32[3] = [1.0, 0.25, 4.0]; y, n, w = batch_normalization(x, s, b, m, v) "
          "{momentum=0.75, training_mode=1}; output y; output n; output w }",
          "graph { input x: f16[6,2]; const s: f16[2] = [1.0, 3.0]; const b: f16[2] = [0.0, 1.0]; const m: f32[2] = "
          "[0.5, 2.0]; const v: f32[2] = [0.5, 1.5]; y = batch_normalization(x, s, b, m, v) {training_mode=1}; output "
          "y "
          "}"}},
}};
}  // namespace peri::ops
