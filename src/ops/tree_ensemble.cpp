// TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier of ai.onnx.ml: every row is evaluated by every tree,
// and the votes of the leaves are aggregated. A tree with a cycle or with a reference to a missing node is refused when
// it is read.
#include <algorithm>
#include <cmath>

#include "ops/reference/dense.hpp"
#include "ops/reference/elements.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/reference/trees.hpp"
#include "ops/shape/class_names.hpp"

namespace peri::ops {
namespace {
constexpr TypeSet kFeatures = types({DType::kF32, DType::kF64, DType::kF16, DType::kI64, DType::kI32});

Status check_rows(const InferContext& c, const Trees& trees) {
  if (c.rank(0) != 2)
    return invalid("x has a wrong shape").expecting("[rows, features]").but_found(shape_text(c.shape(0)));
  const Dim& features = c.shape(0)[1];
  if (features.is_const() && features.value() <= trees.last_feature)
    return invalid("a tree asks for feature %lld", static_cast<long long>(trees.last_feature))
        .expecting("fewer than " + features.text());
  return Ok{};
}

Status infer_values(InferContext& c) {
  PERI_ASSIGN(const Trees trees, read_trees(c.node));
  PERI_TRY(check_rows(c, trees));
  const bool newest = c.node.op == "tree_ensemble";
  c.set(0, newest && is_float(c.dtype(0)) ? c.dtype(0) : DType::kF32, {c.shape(0)[0], Dim(trees.targets)});
  return Ok{};
}

// What the leaves say of a row: a sum, mean, least or largest for each target, with its error.
struct Votes {
  std::vector<double> value, magnitude;
  std::vector<int64_t> count;
};

Votes votes_of(const Trees& trees, const RefTensor& x, int64_t row) {
  const int64_t features = x.dims[1];
  const auto targets = static_cast<size_t>(trees.targets);
  Votes v{std::vector<double>(targets), std::vector<double>(targets), std::vector<int64_t>(targets)};
  for (const int64_t root : trees.roots) {
    int64_t at = root;
    while (at >= 0) {
      const TreeNode& n = trees.nodes[static_cast<size_t>(at)];
      at = trees.takes(n, number_at(x, row * features + n.feature)) ? n.yes : n.no;
    }
    for (const auto& [target, weight] : trees.leaves[static_cast<size_t>(-at - 1)]) {
      const auto t = static_cast<size_t>(target);
      const bool first = v.count[t]++ == 0;
      if (trees.gather == Gather::kMin)
        v.value[t] = first ? weight : std::min(v.value[t], weight);
      else if (trees.gather == Gather::kMax)
        v.value[t] = first ? weight : std::max(v.value[t], weight);
      else
        v.value[t] += weight;
      v.magnitude[t] += std::fabs(weight);
    }
  }
  for (size_t t = 0; t < targets; ++t) {
    if (trees.gather == Gather::kMean) {
      v.value[t] /= static_cast<double>(trees.roots.size());
      v.magnitude[t] /= static_cast<double>(trees.roots.size());
    }
    if (t < trees.base.size()) {
      v.value[t] += trees.base[t];
      v.magnitude[t] += std::fabs(trees.base[t]);
    }
  }
  return v;
}

void keep(RefCall& call, RefTensor& y, int64_t row, const Trees& trees, const std::vector<double>& scores,
          double magnitude) {
  const auto width = static_cast<int64_t>(scores.size());
  const std::vector<double> shown = transformed(scores, trees.transform);
  const auto terms = static_cast<int64_t>(trees.roots.size()) + 1;
  for (int64_t k = 0; k < width; ++k) {
    const auto at = static_cast<size_t>(row * width + k);
    const double v = shown[static_cast<size_t>(k)];
    y.f[at] = v;
    if (!y.radius.empty() && call.u > 0)  // transforms but probit move no more than their argument
      y.radius[at] =
          sum_radius(call.u, terms, magnitude) + steady_radius(call.u, terms, magnitude) + 8 * call.u * std::fabs(v);
  }
}

Status check_features(const RefTensor& x, const Trees& trees) {
  if (x.dims.size() == 2 && x.dims[1] > trees.last_feature) return Ok{};
  return invalid("a tree asks for a feature that x does not have");
}

Status values(RefCall& call) {
  PERI_ASSIGN(const Trees trees, read_trees(call.node));
  const RefTensor& x = *call.in[0];
  PERI_TRY(check_features(x, trees));
  parallel_for(call.threads, x.dims[0], [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const Votes v = votes_of(trees, x, row);
      keep(call, call.out[0], row, trees, v.value, *std::max_element(v.magnitude.begin(), v.magnitude.end()));
    }
  });
  return Ok{};
}

Status infer_classes(InferContext& c) {
  PERI_ASSIGN(const Trees trees, read_trees(c.node));
  PERI_TRY(check_rows(c, trees));
  const Dim rows = c.shape(0)[0];
  c.set(0, c.node.has("classlabels_strings") ? DType::kString : DType::kI64, {rows});
  if (c.out.size() > 1) c.set(1, DType::kF32, {rows, Dim(trees.targets)});
  return Ok{};
}

Status classes(RefCall& call) {
  PERI_ASSIGN(const Trees trees, read_trees(call.node));
  const RefTensor& x = *call.in[0];
  PERI_TRY(check_features(x, trees));
  const std::vector<int64_t> numbers = call.node.ints("classlabels_int64s");
  std::vector<std::string> names;
  if (const auto it = call.node.attrs.find("classlabels_strings"); it != call.node.attrs.end())
    names = std::get<std::vector<std::string>>(it->second);
  for (int64_t row = 0; row < x.dims[0]; ++row) {
    const Votes v = votes_of(trees, x, row);
    std::vector<double> scores = v.value;
    size_t best = static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
    const double magnitude = *std::max_element(v.magnitude.begin(), v.magnitude.end());
    if (trees.one_of_two >= 0) {  // votes for one class of two
      const double s = v.value[static_cast<size_t>(trees.one_of_two)];
      best = s > (trees.all_positive ? 0.5 : 0) ? 1 : 0;
      scores = {trees.leaves_rest() ? 1 - s : -s, s};
    }
    if (names.empty())
      call.out[0].i[static_cast<size_t>(row)] = numbers[best];
    else
      call.out[0].s[static_cast<size_t>(row)] = names[best];
    Trees how = trees;
    if (trees.one_of_two >= 0 && trees.leaves_rest()) how.transform = Transform::kNone;
    if (call.out.size() > 1) keep(call, call.out[1], row, how, scores, magnitude);
  }
  return Ok{};
}

std::vector<AttrSpec> old_attributes(const char* votes) {
  static const std::string kNames[] = {
      "class_ids",  "class_nodeids",  "class_treeids",  "class_weights",  "class_weights_as_tensor",
      "target_ids", "target_nodeids", "target_treeids", "target_weights", "target_weights_as_tensor"};
  std::vector<AttrSpec> out = {{"base_values", AttrKind::kFloats},
                               {"base_values_as_tensor", AttrKind::kTensor},
                               {"nodes_falsenodeids", AttrKind::kInts},
                               {"nodes_featureids", AttrKind::kInts},
                               {"nodes_hitrates", AttrKind::kFloats},
                               {"nodes_hitrates_as_tensor", AttrKind::kTensor},
                               {"nodes_missing_value_tracks_true", AttrKind::kInts},
                               {"nodes_modes", AttrKind::kStrings},
                               {"nodes_nodeids", AttrKind::kInts},
                               {"nodes_treeids", AttrKind::kInts},
                               {"nodes_truenodeids", AttrKind::kInts},
                               {"nodes_values", AttrKind::kFloats},
                               {"nodes_values_as_tensor", AttrKind::kTensor},
                               {"post_transform", AttrKind::kString, false, "NONE"}};
  constexpr AttrKind kKinds[] = {AttrKind::kInts, AttrKind::kInts, AttrKind::kInts, AttrKind::kFloats,
                                 AttrKind::kTensor};
  for (size_t k = 0; k < 10; ++k)
    if (kNames[k].starts_with(votes)) out.push_back({kNames[k], kKinds[k % 5]});
  return out;
}

Status number_own_classes(ir::Graph& graph, ir::Node& node, int) {
  return number_classes(graph, node, "classlabels_int64s");
}

std::vector<OpDef> definitions() {
  std::vector<AttrSpec> regressor = old_attributes("target"), classifier = old_attributes("class");
  regressor.push_back({"n_targets", AttrKind::kInt, false, "1"});
  regressor.push_back({"aggregate_function", AttrKind::kString, false, "SUM"});
  classifier.push_back({"classlabels_int64s", AttrKind::kInts});
  classifier.push_back({"classlabels_strings", AttrKind::kStrings});
  return {
      {.name = "tree_ensemble",
       .onnx = "TreeEnsemble",
       .domain = "ai.onnx.ml",
       .versions = {5},
       .inputs = {{"x", kFeatures}},
       .outputs = {{"y"}},
       .attrs = {{"aggregate_function", AttrKind::kInt, false, "1"},
                 {"leaf_targetids", AttrKind::kInts, true},
                 {"leaf_weights", AttrKind::kTensor, true},
                 {"membership_values", AttrKind::kTensor},
                 {"n_targets", AttrKind::kInt, false, "1"},
                 {"nodes_falseleafs", AttrKind::kInts, true},
                 {"nodes_falsenodeids", AttrKind::kInts, true},
                 {"nodes_featureids", AttrKind::kInts, true},
                 {"nodes_hitrates", AttrKind::kTensor},
                 {"nodes_missing_value_tracks_true", AttrKind::kInts},
                 {"nodes_modes", AttrKind::kTensor, true},
                 {"nodes_splits", AttrKind::kTensor, true},
                 {"nodes_trueleafs", AttrKind::kInts, true},
                 {"nodes_truenodeids", AttrKind::kInts, true},
                 {"post_transform", AttrKind::kInt, false, "0"},
                 {"tree_roots", AttrKind::kInts, true}},
       .infer = infer_values,
       .reference = values,
       .jumps = true},
      {.name = "tree_ensemble_regressor",
       .onnx = "TreeEnsembleRegressor",
       .domain = "ai.onnx.ml",
       .versions = {1, 3, 5},
       .inputs = {{"x", kFeatures}},
       .outputs = {{"y"}},
       .attrs = regressor,
       .infer = infer_values,
       .reference = values,
       .jumps = true,
       .samples = {"graph { input x: f32[4,2]; y = tree_ensemble_regressor(x) {n_targets=1, nodes_treeids=[0, 0, 0, "
                   "1], nodes_nodeids=[0, 1, 2, 0], nodes_featureids=[1, 0, 0, 0], nodes_modes=[\"BRANCH_LEQ\", "
                   "\"LEAF\", \"LEAF\", \"LEAF\"], nodes_values=[0.25, 0.0, 0.0, 0.0], nodes_truenodeids=[1, 0, 0, 0], "
                   "nodes_falsenodeids=[2, 0, 0, 0], target_treeids=[0, 0, 1], target_nodeids=[1, 2, 0], "
                   "target_ids=[0, 0, 0], target_weights=[1.5, -2.0, 0.25]}; output y }"}},
      {.name = "tree_ensemble_classifier",
       .onnx = "TreeEnsembleClassifier",
       .domain = "ai.onnx.ml",
       .versions = {1, 3, 5},
       .inputs = {{"x", kFeatures}},
       .outputs = {{"y"}, {"scores", kAnyType, true}},
       .attrs = classifier,
       .upgrade = number_own_classes,
       .infer = infer_classes,
       .reference = classes,
       .jumps = true,
       .samples = {"graph { input x: f32[3,2]; y, z = tree_ensemble_classifier(x) {classlabels_int64s=[3, 5, 7], "
                   "nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0], "
                   "nodes_modes=[\"BRANCH_LT\", \"LEAF\", \"LEAF\"], nodes_values=[0.25, 0.0, 0.0], "
                   "nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], class_treeids=[0, 0, 0], "
                   "class_nodeids=[1, 2, 2], class_ids=[0, 1, 2], class_weights=[1.0, 0.25, 0.75], "
                   "post_transform=\"SOFTMAX\"}; output y; output z }"}}};
}
}  // namespace

extern const Entry tree_ensemble_entry;
const Entry tree_ensemble_entry{definitions()};

}  // namespace peri::ops
