// SVMRegressor and SVMClassifier of ai.onnx.ml: weighted sums of kernels of a row with the support vectors; for
// classification each pair of classes votes, and probabilities are fitted to those of the pairs.
#include <algorithm>
#include <cmath>

#include "ops/reference/dense.hpp"
#include "ops/reference/elements.hpp"
#include "ops/reference/machines.hpp"
#include "ops/shape/class_names.hpp"

namespace peri::ops {
namespace {
constexpr TypeSet kFeatures = types({DType::kF32, DType::kF64, DType::kI64, DType::kI32});

struct Number {
  double v = 0, r = 0;
};

// The kernel of a row with one vector.
Number kernel_of(const Machine& m, const std::vector<Number>& row, const double* vector, double u) {
  ProductSum sum;
  for (int64_t k = 0; k < m.features; ++k) {
    const Number& x = row[static_cast<size_t>(k)];
    const double d = x.v - vector[k], r = x.r + u * std::fabs(d);
    m.kind == KernelKind::kRbf ? sum.add(d, r, d, r) : sum.add(x.v, x.r, vector[k], 0);
  }
  const Number s{sum.value, sum.radius(u, m.features + 1)};
  if (m.kind == KernelKind::kLinear) return s;
  const double at = m.gamma * s.v + (m.kind == KernelKind::kRbf ? 0 : m.coef0),
               off = std::fabs(m.gamma) * s.r + 2 * u * (std::fabs(m.gamma * s.v) + std::fabs(m.coef0));
  double v = 0, steep = 1;
  if (m.kind == KernelKind::kRbf) {
    v = std::exp(-at);
    steep = std::exp(-at + off);
  } else if (m.kind == KernelKind::kSigmoid) {
    v = std::tanh(at);
  } else {
    v = std::pow(at, m.degree);
    steep = m.degree == 0 ? 0 : std::fabs(m.degree * std::pow(std::fabs(at) + off, m.degree - 1));
  }
  return {v, steep * off + 16 * u * std::fabs(v)};
}

std::vector<Number> row_of(const RefTensor& x, int64_t row, int64_t features) {
  std::vector<Number> out;
  for (int64_t k = row * features; k < (row + 1) * features; ++k)
    out.push_back({number_at(x, k), x.floating() ? x.r(k) : 0});
  return out;
}

Status check_features(const RefTensor& x, const Machine& m) {
  if (x.dims.size() == 2 && x.dims[1] == m.features) return Ok{};
  return invalid("x has not as many features as the support vectors").expecting(std::to_string(m.features));
}

void keep(RefTensor& y, int64_t at, double v, double r) {
  y.f[static_cast<size_t>(at)] = v;
  if (!y.radius.empty()) y.radius[static_cast<size_t>(at)] = r;
}

Status regress(RefCall& call) {
  PERI_ASSIGN(const Machine m, read_regressor(call.node));
  const RefTensor& x = *call.in[0];
  PERI_TRY(check_features(x, m));
  for (int64_t n = 0; n < x.dims[0]; ++n) {
    const std::vector<Number> row = row_of(x, n, m.features);
    ProductSum sum;
    for (int64_t k = 0; k < m.vectors; ++k) {
      const Number near = kernel_of(m, row, m.support.data() + k * m.features, call.u);
      sum.add(m.coefficients[static_cast<size_t>(k)], 0, near.v, near.r);
    }
    if (m.vectors == 0) {
      const Number near = kernel_of(m, row, m.coefficients.data(), call.u);
      sum.add_term(near.v, near.r);
    }
    sum.add_term(m.rho[0], 0);
    const double r = sum.radius(call.u, m.vectors + 2);
    m.one_class ? keep(call.out[0], n, sum.value > 0 ? 1 : -1, 0) : keep(call.out[0], n, sum.value, r);
  }
  return Ok{};
}

// Scores of a row: one for each class, or for each pair of them, which votes.
std::vector<Number> scores_of(const Machine& m, const std::vector<Number>& row, double u, std::vector<int64_t>* votes) {
  std::vector<Number> out;
  if (m.vectors == 0) {
    for (int64_t c = 0; c < m.classes; ++c) {
      Number s = kernel_of(m, row, m.coefficients.data() + c * m.features, u);
      out.push_back({s.v + m.rho[0], s.r + u * (std::fabs(s.v) + std::fabs(m.rho[0]))});
    }
    return out;
  }
  std::vector<Number> near;
  for (int64_t k = 0; k < m.vectors; ++k) near.push_back(kernel_of(m, row, m.support.data() + k * m.features, u));
  votes->assign(static_cast<size_t>(m.classes), 0);
  for (size_t a = 0; a < m.each.size(); ++a)
    for (size_t b = a + 1; b < m.each.size(); ++b) {
      ProductSum sum;
      for (const auto& [of, with] : {std::pair(a, b - 1), std::pair(b, a)})
        for (int64_t k = m.first[of]; k < m.first[of] + m.each[of]; ++k) {
          const auto at = static_cast<size_t>(k);
          sum.add(m.coefficients[with * static_cast<size_t>(m.vectors) + at], 0, near[at].v, near[at].r);
        }
      sum.add_term(m.rho[out.size()], 0);
      ++(*votes)[sum.value > 0 ? a : b];
      out.push_back({sum.value, sum.radius(u, m.vectors + 1)});
    }
  return out;
}

std::vector<Number> probabilities_of(const Machine& m, const std::vector<Number>& scores, double u) {
  std::vector<double> plain;
  double off = 0;
  for (size_t k = 0; k < scores.size(); ++k) {
    plain.push_back(scores[k].v);
    off = std::max(off, std::fabs(m.prob_a[k]) * scores[k].r);
  }
  // The walk ends at 0.005 / n of its error, wherever round-off has led it.
  const double end = 0.005 / static_cast<double>(m.classes);
  std::vector<Number> out;
  for (const double p : probabilities_of(m, plain)) out.push_back({p, u == 0 ? 0 : off + 64 * u + end});
  return out;
}

Status classify(RefCall& call) {
  PERI_ASSIGN(const Machine m, read_classifier(call.node));
  const RefTensor& x = *call.in[0];
  PERI_TRY(check_features(x, m));
  for (int64_t n = 0; n < x.dims[0]; ++n) {
    std::vector<int64_t> votes;
    std::vector<Number> scores = scores_of(m, row_of(x, n, m.features), call.u, &votes);
    if (m.has_probabilities) scores = probabilities_of(m, scores, call.u);
    const auto higher = [](const Number& a, const Number& b) { return a.v < b.v; };
    auto best = votes.empty() ? std::max_element(scores.begin(), scores.end(), higher) - scores.begin()
                              : std::max_element(votes.begin(), votes.end()) - votes.begin();
    if (m.names.empty())
      call.out[0].i[static_cast<size_t>(n)] = m.numbers[static_cast<size_t>(best)];
    else
      call.out[0].s[static_cast<size_t>(n)] = m.names[static_cast<size_t>(best)];
    if (call.out.size() < 2) continue;
    if (scores.size() == 1) scores.insert(scores.begin(), {-scores[0].v, scores[0].r});
    std::vector<double> plain;
    double most = 0;
    for (const Number& s : scores) {
      plain.push_back(s.v);
      most = std::max(most, s.r);
    }
    const std::vector<double> shown = transformed(plain, m.transform);
    for (size_t k = 0; k < shown.size(); ++k)
      keep(call.out[1], n * m.scores() + static_cast<int64_t>(k), shown[k], most + 8 * call.u * std::fabs(shown[k]));
  }
  return Ok{};
}

Status check_rows(const InferContext& c, const Machine& m) {
  if (c.rank(0) != 2 || (c.shape(0)[1].is_const() && !c.shape(0)[1].is_const(m.features)))
    return invalid("x has a wrong shape")
        .expecting("[rows, " + std::to_string(m.features) + "]")
        .but_found(shape_text(c.shape(0)));
  return Ok{};
}
Status infer_regressor(InferContext& c) {
  PERI_ASSIGN(const Machine m, read_regressor(c.node));
  PERI_TRY(check_rows(c, m));
  c.set(0, DType::kF32, {c.shape(0)[0], Dim(1)});
  return Ok{};
}
Status infer_classifier(InferContext& c) {
  PERI_ASSIGN(const Machine m, read_classifier(c.node));
  PERI_TRY(check_rows(c, m));
  c.set(0, m.names.empty() ? DType::kI64 : DType::kString, {c.shape(0)[0]});
  if (c.out.size() > 1) c.set(1, DType::kF32, {c.shape(0)[0], Dim(m.scores())});
  return Ok{};
}

Status number_own_classes(ir::Graph& graph, ir::Node& node, int) {
  return number_classes(graph, node, "classlabels_ints");
}

std::vector<OpDef> definitions() {
  const std::vector<AttrSpec> both = {{"coefficients", AttrKind::kFloats, true},
                                      {"kernel_params", AttrKind::kFloats},
                                      {"kernel_type", AttrKind::kString, false, "LINEAR"},
                                      {"post_transform", AttrKind::kString, false, "NONE"},
                                      {"rho", AttrKind::kFloats, true},
                                      {"support_vectors", AttrKind::kFloats}};
  OpDef regressor{.name = "svm_regressor",
                  .onnx = "SVMRegressor",
                  .domain = "ai.onnx.ml",
                  .versions = {1},
                  .inputs = {{"x", kFeatures}},
                  .outputs = {{"y"}},
                  .attrs = both,
                  .infer = infer_regressor,
                  .reference = regress,
                  .jumps = true,
                  .samples = {"graph { input x: f32[4,2]; y = svm_regressor(x) {n_supports=3, kernel_type=\"RBF\", "
                              "kernel_params=[0.5, 0.0, 3.0], coefficients=[1.0, -0.5, 0.25], rho=[0.125], "
                              "support_vectors=[0.5, 0.25, -1.0, 0.0, 0.75, 2.0]}; output y }",
                              "graph { input x: f32[3,2]; y = svm_regressor(x) {coefficients=[1.0, -0.5], rho=[0.25], "
                              "one_class=1}; output y }"}};
  for (const char* name : {"n_supports", "n_targets", "one_class"}) regressor.attrs.push_back({name, AttrKind::kInt});
  OpDef classifier{.name = "svm_classifier",
                   .onnx = "SVMClassifier",
                   .domain = "ai.onnx.ml",
                   .versions = {1},
                   .inputs = {{"x", kFeatures}},
                   .outputs = {{"y"}, {"scores", kAnyType, true}},
                   .attrs = both,
                   .upgrade = number_own_classes,
                   .infer = infer_classifier,
                   .reference = classify,
                   .jumps = true,
                   .samples = {"graph { input x: f32[4,2]; y, z = svm_classifier(x) {classlabels_ints=[4, 7, 9], "
                               "kernel_type=\"POLY\", kernel_params=[0.5, 1.0, 2.0], vectors_per_class=[1, 1, 1], "
                               "coefficients=[1.0, -0.5, 0.25, 0.5, 0.75, -1.0], rho=[0.125, -0.25, 0.0], "
                               "support_vectors=[0.5, 0.25, -1.0, 0.0, 0.75, 2.0]}; output y; output z }"}};
  for (const char* name : {"prob_a", "prob_b"}) classifier.attrs.push_back({name, AttrKind::kFloats});
  for (const char* name : {"classlabels_ints", "vectors_per_class"})
    classifier.attrs.push_back({name, AttrKind::kInts});
  classifier.attrs.push_back({"classlabels_strings", AttrKind::kStrings});
  return {std::move(regressor), std::move(classifier)};
}
}  // namespace

extern const Entry support_vectors_entry;
const Entry support_vectors_entry{definitions()};

}  // namespace peri::ops
