// Operators of ai.onnx.ml that import replaces by a few of ONNX: ArrayFeatureExtractor, Binarizer, Scaler, Normalizer,
// Imputer, FeatureVectorizer, OneHotEncoder, CategoryMapper, ZipMap, LinearRegressor and LinearClassifier.
#include <algorithm>
#include <cmath>
#include <numeric>

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
  const bool named = c.in(0)->type.dtype == DType::kString;
  const std::vector<std::string> names = texts(node, "cats_strings");
  const std::vector<int64_t> numbers = node.ints("cats_int64s");
  const size_t count = named ? names.size() : numbers.size();
  if (count == 0)
    return invalid("a one-hot encoder has no categories of its input's type")
        .expecting(named ? "cats_strings" : "cats_int64s");
  ir::Value *x = c.in(0), *categories = nullptr;
  if (!named && x->type.dtype != DType::kI64) x = c.cast(x, DType::kI64);
  if (node.i("zeros", 1) != 0) {
    categories = named ? list(c, names) : c.ints(numbers);
  } else {  // an unknown category is an error
    x = c.op("category_index", {x},
             named ? ir::Attrs{{"categories_strings", names}} : ir::Attrs{{"categories_int64s", numbers}});
    std::vector<int64_t> indices(count);
    std::iota(indices.begin(), indices.end(), int64_t{0});
    categories = c.ints(std::move(indices));
  }
  c.give(0, c.cast(c.op("equal", {c.op("unsqueeze", {x, c.ints({-1})}), categories}), DType::kF32));
  return c.done();
}

// A text that becomes its number, or a number that becomes its text.
Status map_categories(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  const std::vector<std::string> names = texts(node, "cats_strings");
  const std::vector<int64_t> numbers = node.ints("cats_int64s");
  ir::Attrs table;
  if (c.in(0)->type.dtype == DType::kString)
    table = {{"keys_strings", names}, {"values_int64s", numbers}, {"default_int64", node.i("default_int64", -1)}};
  else
    table = {
        {"keys_int64s", numbers}, {"values_strings", names}, {"default_string", node.s("default_string", "_Unused")}};
  c.give(0, c.op("label_encoder", {c.in(0)}, std::move(table)));
  return c.done();
}

Result<ir::Value*> transformed(Composed& c, const ir::Node& node, ir::Value* y) {
  const std::string how = node.s("post_transform", "NONE");
  if (how == "NONE") return y;
  if (how == "SOFTMAX") return c.op("softmax", {y}, {{"axis", int64_t{-1}}});
  if (how == "LOGISTIC") return c.op("sigmoid", {y});
  if (how != "SOFTMAX_ZERO")
    return unsupported("post_transform %s of a linear model", how.c_str())
        .expecting("NONE, SOFTMAX, LOGISTIC or SOFTMAX_ZERO");
  // Scores of about 0 take no part, and become 0.
  constexpr double kZero = 1e-7;  // ONNX Runtime's limit
  ir::Value* counts = c.op("greater", {c.op("abs", {y}), c.scalar(DType::kF32, kZero)});
  y = c.op("softmax", {c.op("where", {counts, y, c.scalar(DType::kF32, -INFINITY)})}, {{"axis", int64_t{-1}}});
  return c.op("where", {counts, y, c.scalar(DType::kF32, 0)});
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

// Scores of both classes from that of the second, `y`, as ONNX Runtime computes them: logits of both become
// probabilities, and all else is taken for a probability.
ir::Value* both_scores(Composed& c, const std::string& how, ir::Value* y) {
  const bool logits = how == "LOGISTIC";
  ir::Value* other = logits ? c.op("neg", {y}) : c.op("sub", {c.scalar(DType::kF32, 1), y});
  ir::Value* both = c.op("concat", {other, y}, {{"axis", int64_t{-1}}});
  return logits ? c.op("sigmoid", {both}) : both;
}

Status classify(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  const std::vector<std::string> names = texts(node, "classlabels_strings");
  const std::vector<int64_t> numbers = node.ints("classlabels_ints");
  const auto classes = static_cast<int64_t>(names.empty() ? numbers.size() : names.size());
  const bool one_row = classes == 2 && node.floats("intercepts").size() == 1;
  PERI_ASSIGN(ir::Value * y, product(c, node, one_row ? 1 : classes));
  ir::Value* best = nullptr;
  if (one_row) {
    best = c.op("squeeze", {c.cast(c.op("greater", {y, c.scalar(DType::kF32, 0)}), DType::kI64), c.ints({-1})});
    y = both_scores(c, node.s("post_transform", "NONE"), y);
  } else {
    best = c.op("arg_max", {y}, {{"axis", int64_t{-1}}, {"keepdims", int64_t{0}}});
    PERI_ASSIGN(y, transformed(c, node, y));
  }
  c.give(0, c.op("gather", {names.empty() ? c.ints(numbers) : list(c, names), best}, {{"axis", int64_t{0}}}));
  c.give(1, y);
  return c.done();
}

// A map from each class to its score becomes a row of scores, in the order of the classes.
Status rows_of_maps(ir::Graph& graph, ir::Node& node, int) {
  Composed c(graph, node);
  const std::vector<std::string> names = texts(node, "classlabels_strings");
  const std::vector<int64_t> numbers = node.ints("classlabels_int64s");
  std::vector<int64_t> order(names.empty() ? numbers.size() : names.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const auto i = static_cast<size_t>(a), k = static_cast<size_t>(b);
    return names.empty() ? numbers[i] < numbers[k] : names[i] < names[k];
  });
  const bool sorted = std::is_sorted(order.begin(), order.end());
  const std::optional<Shape>& shape = c.in(0)->type.shape;
  if (shape && !shape->empty() && shape->back().is_const() && shape->back().value() != std::ssize(order))
    return invalid("ZipMap has another number of classes than of scores")
        .expecting(std::to_string(shape->back().value()))
        .but_found(std::to_string(order.size()));
  c.give(0, sorted ? c.op("identity", {c.in(0)}) : c.op("gather", {c.in(0), c.ints(order)}, {{"axis", int64_t{-1}}}));
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
  return {
      classical("array_feature_extractor", "ArrayFeatureExtractor", {{"x"}, {"indices", kIndex}}, y, {}, extract),
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
      classical("category_mapper", "CategoryMapper", {{"x", types({DType::kString, DType::kI64})}}, y,
                {{"cats_int64s", AttrKind::kInts},
                 {"cats_strings", AttrKind::kStrings},
                 {"default_int64", AttrKind::kInt, false, "-1"},
                 {"default_string", AttrKind::kString, false, "_Unused"}},
                map_categories),
      classical("zip_map", "ZipMap", {{"x", types({DType::kF32})}}, y,
                {{"classlabels_int64s", AttrKind::kInts}, {"classlabels_strings", AttrKind::kStrings}}, rows_of_maps),
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
