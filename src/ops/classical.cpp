// Operators of ai.onnx.ml that import replaces by a few of ONNX: ArrayFeatureExtractor, Binarizer, Scaler, Normalizer,
// Imputer, FeatureVectorizer, OneHotEncoder, LinearRegressor and LinearClassifier.
#include "ops/shape/composed.hpp"
#include "ops/shape/upgrade.hpp"

namespace peri::ops {
namespace {
constexpr TypeSet kFeatures = types({DType::kF32, DType::kF64, DType::kI64, DType::kI32});

ir::Value* floats(Composed& c, const std::vector<double>& v, std::vector<int64_t> dims) {
  auto t = Tensor::zeros(DType::kF32, std::move(dims));
  PERI_CHECK(t.ok());
  for (size_t k = 0; k < v.size(); ++k) t->set_f64(static_cast<int64_t>(k), v[k]);
  return c.constant(std::move(t).value());
}
ir::Value* row(Composed& c, const std::vector<double>& v) { return floats(c, v, {static_cast<int64_t>(v.size())}); }
ir::Value* as_float(Composed& c, ir::Value* x) { return x->type.dtype == DType::kF32 ? x : c.cast(x, DType::kF32); }
std::vector<std::string> texts(const ir::Node& node, std::string_view key) {
  const auto it = node.attrs.find(key);
  return it == node.attrs.end() ? std::vector<std::string>() : std::get<std::vector<std::string>>(it->second);
}
ir::Value* list(Composed& c, const std::vector<std::string>& v) {
  auto t = Tensor::strings({static_cast<int64_t>(v.size())}, v);
  PERI_CHECK(t.ok());
  return c.constant(std::move(t).value());
}

Status extract(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  ir::Value* x = c.in(0);
  if (x->type.rank() == 1) x = c.op("unsqueeze", {x, c.ints({0})});
  c.give(0, c.op("gather", {x, c.op("reshape", {c.in(1), c.ints({-1})})}, {{"axis", int64_t{-1}}}));
  return c.done();
}

Status binarize(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  const DType type = c.in(0)->type.dtype;
  const double threshold = node.f("threshold", 0);
  c.give(0, c.cast(c.op("greater", {as_float(c, c.in(0)), c.scalar(DType::kF32, threshold)}), type));
  return c.done();
}

Status scale(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  ir::Value* x = as_float(c, c.in(0));
  if (const auto offset = node.floats("offset"); !offset.empty()) x = c.op("sub", {x, row(c, offset)});
  if (const auto factor = node.floats("scale"); !factor.empty()) x = c.op("mul", {x, row(c, factor)});
  c.give(0, x == c.in(0) ? c.op("identity", {x}) : x);
  return c.done();
}

// A row of zeros stays one.
Status normalize(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  const std::string norm = node.s("norm", "MAX");
  if (norm != "MAX" && norm != "L1" && norm != "L2")
    return invalid("norm is unknown").expecting("MAX, L1 or L2").but_found(norm);
  ir::Value* x = as_float(c, c.in(0));
  const char* by = norm == "MAX" ? "reduce_max" : norm == "L1" ? "reduce_l1" : "reduce_l2";
  ir::Value* size = c.op(by, {x, c.ints({-1})}, {{"keepdims", int64_t{1}}});
  ir::Value* none = c.op("equal", {size, c.scalar(DType::kF32, 0)});
  c.give(0, c.op("div", {x, c.op("where", {none, c.scalar(DType::kF32, 1), size})}));
  return c.done();
}

Status impute(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  ir::Value* x = c.in(0);
  if (is_float(x->type.dtype)) {
    const double replaced = node.f("replaced_value_float", 0);
    ir::Value* missing =
        replaced != replaced ? c.op("is_nan", {x}) : c.op("equal", {x, c.scalar(x->type.dtype, replaced)});
    ir::Value* values = row(c, node.floats("imputed_value_floats"));
    if (x->type.dtype != DType::kF32) values = c.cast(values, x->type.dtype);
    c.give(0, c.op("where", {missing, values, x}));
    return c.done();
  }
  ir::Value* replaced = c.cast(c.ints({node.i("replaced_value_int64", 0)}), x->type.dtype);
  ir::Value* values = c.cast(c.ints(node.ints("imputed_value_int64s")), x->type.dtype);
  c.give(0, c.op("where", {c.op("equal", {x, replaced}), values, x}));
  return c.done();
}

Status join_features(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  std::vector<ir::Value*> parts;
  for (ir::Value* v : node.inputs) {
    if (!v || v->type.rank() != 2) return unsupported("features that are not [rows, columns] each");
    parts.push_back(as_float(c, v));
  }
  c.give(0, c.op("concat", parts, {{"axis", int64_t{1}}}));
  return c.done();
}

Status one_hot(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  if (node.i("zeros", 1) == 0)
    return unsupported("a one-hot encoder for which an unknown category is an error")
        .expecting("zeros = 1")
        .advise("export it so that unknown categories become zeros: handle_unknown=\"ignore\" in scikit-learn");
  ir::Value* x = c.op("unsqueeze", {c.in(0), c.ints({-1})});
  if (c.in(0)->type.dtype == DType::kString)
    x = c.op("equal", {x, list(c, texts(node, "cats_strings"))});
  else
    x = c.op("equal", {c.cast(x, DType::kI64), c.ints(node.ints("cats_int64s"))});
  c.give(0, c.cast(x, DType::kF32));
  return c.done();
}

Result<ir::Value*> transformed(Composed& c, const ir::Node& node, ir::Value* y) {
  const std::string how = node.s("post_transform", "NONE");
  if (how == "NONE") return y;
  if (how == "SOFTMAX") return c.op("softmax", {y}, {{"axis", int64_t{-1}}});
  if (how == "LOGISTIC") return c.op("sigmoid", {y});
  return unsupported("post_transform %s of a linear model", how.c_str()).expecting("NONE, SOFTMAX or LOGISTIC");
}

// Rows of coefficients, one for each result.
Result<ir::Value*> product(Composed& c, const ir::Node& node, int64_t results) {
  const std::vector<double> weights = node.floats("coefficients"), shift = node.floats("intercepts");
  const auto count = static_cast<int64_t>(weights.size());
  if (results < 1 || count % results != 0 || (!shift.empty() && static_cast<int64_t>(shift.size()) != results))
    return invalid("the coefficients of a linear model do not fit its results").expecting(std::to_string(results));
  ir::Value* w =
      c.op("transpose", {floats(c, weights, {results, count / results})}, {{"perm", std::vector<int64_t>{1, 0}}});
  ir::Value* y = c.op("matmul", {as_float(c, c.in(0)), w});
  return shift.empty() ? y : c.op("add", {y, row(c, shift)});
}

Status regress(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  PERI_ASSIGN(ir::Value * y, product(c, node, node.i("targets", 1)));
  PERI_ASSIGN(y, transformed(c, node, y));
  c.give(0, y);
  return c.done();
}

Status classify(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  const std::vector<std::string> names = texts(node, "classlabels_strings");
  const std::vector<int64_t> numbers = node.ints("classlabels_ints");
  const auto classes = static_cast<int64_t>(names.empty() ? numbers.size() : names.size());
  if (!node.floats("intercepts").empty() && static_cast<int64_t>(node.floats("intercepts").size()) != classes)
    return unsupported("a linear classifier with one row of coefficients for two classes")
        .advise("export the model with a row for each class");
  PERI_ASSIGN(ir::Value * y, product(c, node, classes));
  ir::Value* best = c.op("arg_max", {y}, {{"axis", int64_t{-1}}, {"keepdims", int64_t{0}}});
  PERI_ASSIGN(y, transformed(c, node, y));
  c.give(0, c.op("gather", {names.empty() ? c.ints(numbers) : list(c, names), best}, {{"axis", int64_t{0}}}));
  c.give(1, y);
  return c.done();
}

OpDef classical(std::string_view name, std::string_view onnx, std::vector<Port> inputs, std::vector<Port> outputs,
                std::vector<AttrSpec> attrs, Upgrade upgrade) {
  OpDef op = composed(name, onnx, std::move(inputs), std::move(outputs), std::move(attrs), upgrade);
  op.domain = "ai.onnx.ml";
  return op;
}

std::vector<OpDef> definitions() {
  const Port x{"x", kFeatures};
  const std::vector<Port> y = {{"y"}};
  const AttrSpec transform{"post_transform", AttrKind::kString, false, "NONE"},
      coefficients{"coefficients", AttrKind::kFloats, true}, intercepts{"intercepts", AttrKind::kFloats, false, "0"};
  return {classical("array_feature_extractor", "ArrayFeatureExtractor", {{"x"}, {"indices", kIndex}}, y, {}, extract),
          classical("binarizer", "Binarizer", {x}, y, {{"threshold", AttrKind::kFloat, false, "0"}}, binarize),
          classical("scaler", "Scaler", {x}, y, {{"offset", AttrKind::kFloats}, {"scale", AttrKind::kFloats}}, scale),
          classical("normalizer", "Normalizer", {x}, y, {{"norm", AttrKind::kString, false, "MAX"}}, normalize),
          classical("imputer", "Imputer", {x}, y,
                    {{"imputed_value_floats", AttrKind::kFloats},
                     {"imputed_value_int64s", AttrKind::kInts},
                     {"replaced_value_float", AttrKind::kFloat, false, "0"},
                     {"replaced_value_int64", AttrKind::kInt, false, "0"}},
                    impute),
          classical("feature_vectorizer", "FeatureVectorizer", {{"x", kFeatures, false, true}}, y,
                    {{"inputdimensions", AttrKind::kInts}}, join_features),
          classical("one_hot_encoder", "OneHotEncoder", {{"x", kFeatures | types({DType::kString})}}, y,
                    {{"cats_int64s", AttrKind::kInts},
                     {"cats_strings", AttrKind::kStrings},
                     {"zeros", AttrKind::kInt, false, "1"}},
                    one_hot),
          classical("linear_regressor", "LinearRegressor", {x}, y,
                    {coefficients, intercepts, transform, {"targets", AttrKind::kInt, false, "1"}}, regress),
          classical("linear_classifier", "LinearClassifier", {x}, {{"y"}, {"scores", kAnyType, true}},
                    {coefficients,
                     intercepts,
                     transform,
                     {"classlabels_ints", AttrKind::kInts},
                     {"classlabels_strings", AttrKind::kStrings},
                     {"multi_class", AttrKind::kInt, false, "0"}},
                    classify)};
}
}  // namespace

extern const Entry classical_entry;
const Entry classical_entry{definitions()};

}  // namespace peri::ops
