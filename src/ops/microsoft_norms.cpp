// Normalisations of com.microsoft: of a sum with a skip connection (SkipLayerNormalization,
// SkipSimplifiedLayerNormalization), and of embeddings (EmbedLayerNormalization).
#include "ops/shape/composed.hpp"

namespace peri::ops {
namespace {

constexpr double kSkipEpsilon = 1e-12, kSimpleEpsilon = 1e-5;

ir::Attrs along_last(double epsilon) { return {{"axis", int64_t{-1}}, {"epsilon", epsilon}}; }

// Of input + skip (+ bias), which is the fourth output.
Status skip_norm(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  const bool simple = node.op == "skip_simplified_layer_normalization";
  ir::Value *sum = c.op("add", {c.in(0), c.in(1)}), *bias = c.in(simple ? 3 : 4);
  if (bias) sum = c.op("add", {sum, bias});
  const ir::Attrs attrs = along_last(node.f("epsilon", kSkipEpsilon));
  if (simple) {
    c.give(0, c.op("rms_normalization", {sum, c.in(2)}, attrs));
  } else {
    std::vector<ir::Value*> inputs = {sum, c.in(2)};
    if (c.has(3)) inputs.push_back(c.in(3));
    const auto made = c.ops("layer_normalization", inputs, attrs, c.wants(1) || c.wants(2) ? 3 : 1);
    for (size_t port = 0; port < made.size(); ++port) c.give(port, made[port]);
  }
  c.give(3, sum);
  return c.done();
}

Status simplified_norm(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  c.give(0, c.op("rms_normalization", {c.in(0), c.in(1)},
                 {{"axis", node.i("axis", -1)}, {"epsilon", node.f("epsilon", kSimpleEpsilon)}}));
  return c.done();
}

// Words, places and segments looked up, added and normalised.
Status embed_norm(ir::Graph& graph, ir::Node& node, int) {
  enum : size_t { kIds, kSegments, kWords, kPlaces, kSegmentTable, kGamma, kBeta, kMask, kPlaceIds };
  Composed c(graph, node);
  ir::Value* const words = c.op("gather", {c.in(kWords), c.in(kIds)});
  ir::Value* places = nullptr;
  if (c.has(kPlaceIds)) {
    places = c.op("gather", {c.in(kPlaces), c.in(kPlaceIds)});
  } else {
    ir::Value* const length = c.op("shape", {c.in(kIds)}, {{"start", int64_t{1}}, {"end", int64_t{2}}});
    places = c.op("slice", {c.in(kPlaces), c.ints({0}), length, c.ints({0})});
  }
  ir::Value* sum = c.op("add", {words, places});
  if (c.has(kSegments) && c.has(kSegmentTable))
    sum = c.op("add", {sum, c.op("gather", {c.in(kSegmentTable), c.in(kSegments)})});
  c.give(0, c.op("layer_normalization", {sum, c.in(kGamma), c.in(kBeta)}, along_last(node.f("epsilon", kSkipEpsilon))));
  // How many places of each row count: those of the mask, or none.
  if (c.wants(1)) {
    ir::Value* const of = c.has(kMask) ? c.in(kMask) : c.op("sub", {c.in(kIds), c.in(kIds)});
    c.give(1, c.op("reduce_sum", {of, c.ints({1})}, {{"keepdims", int64_t{0}}}));
  }
  c.give(2, sum);
  return c.done();
}

std::vector<OpDef> definitions() {
  const Port x{"input", kFloats}, skip{"skip", kFloats, false, false, 0}, gamma{"gamma", kFloats, false, false, 0},
      beta{"beta", kFloats, true, false, 0}, bias{"bias", kFloats, true, false, 0, Role::kBias};
  const std::vector<Port> four = {
      {"output"}, {"mean", kAnyType, true}, {"inv_std_var", kAnyType, true}, {"input_skip_bias_sum", kAnyType, true}};
  const AttrSpec epsilon{"epsilon", AttrKind::kFloat, false, "1e-12"};
  const Port table{"position_embedding", kFloats};
  std::vector<OpDef> out = {
      composed("skip_layer_normalization", "SkipLayerNormalization", {x, skip, gamma, beta, bias}, four, {epsilon},
               skip_norm),
      composed("skip_simplified_layer_normalization", "SkipSimplifiedLayerNormalization", {x, skip, gamma, bias}, four,
               {epsilon}, skip_norm),
      composed("embed_layer_normalization", "EmbedLayerNormalization",
               {{"input_ids", kIndex},
                {"segment_ids", kIndex, true},
                {"word_embedding", kFloats},
                table,
                {"segment_embedding", kFloats, true},
                {"gamma", kFloats},
                {"beta", kFloats},
                {"mask", kIndex, true},
                {"position_ids", kIndex, true}},
               {{"output"}, {"mask_index", kAnyType, true}, {"embedding_sum", kAnyType, true}}, {epsilon}, embed_norm),
      composed("simplified_layer_normalization", "SimplifiedLayerNormalization",
               {x, {"scale", kFloats, false, false, -1, Role::kScale}}, std::vector<AttrSpec>{epsilon},
               simplified_norm)};
  out[2].attrs.push_back({"mask_index_type", AttrKind::kInt, false, "0"});
  out[3].domain = "";
  out[3].attrs.push_back({"axis", AttrKind::kInt, false, "-1"});
  out[3].attrs.push_back({"stash_type", AttrKind::kInt, false, "1 (float)"});
  return out;
}
}  // namespace

extern const Entry microsoft_norms_entry;
const Entry microsoft_norms_entry{definitions()};

}  // namespace peri::ops
