// Reads the attributes of support vector machines; shares of classes from those of their pairs.
#include "ops/reference/machines.hpp"

#include <algorithm>
#include <cmath>

namespace peri::ops {
namespace {
Result<KernelKind> kind_of(const ir::Node& node) {
  const std::string kind = node.s("kernel_type", "LINEAR");
  if (kind == "LINEAR") return KernelKind::kLinear;
  if (kind == "POLY") return KernelKind::kPoly;
  if (kind == "RBF") return KernelKind::kRbf;
  if (kind == "SIGMOID") return KernelKind::kSigmoid;
  return invalid("kernel_type is unknown").expecting("LINEAR, POLY, RBF or SIGMOID").but_found(kind);
}
Result<Transform> transform_of(const ir::Node& node) {
  const std::string how = node.s("post_transform", "NONE");
  if (how == "NONE") return Transform::kNone;
  if (how == "SOFTMAX") return Transform::kSoftmax;
  if (how == "LOGISTIC") return Transform::kLogistic;
  if (how == "SOFTMAX_ZERO") return Transform::kSoftmaxZero;
  return unsupported("post_transform %s of a support vector machine", how.c_str())
      .expecting("NONE, SOFTMAX, LOGISTIC or SOFTMAX_ZERO");
}
Error does_not_fit(std::string_view what, int64_t want, size_t have) {
  return invalid("%s of a support vector machine do not fit", std::string(what).c_str())
      .expecting(std::to_string(want))
      .but_found(std::to_string(have));
}

Status read_kernel(const ir::Node& node, Machine* m) {
  m->coefficients = node.floats("coefficients");
  m->rho = node.floats("rho");
  m->support = node.floats("support_vectors");
  if (m->coefficients.empty()) return invalid("a support vector machine without coefficients");
  PERI_ASSIGN(m->transform, transform_of(node));
  if (m->vectors == 0) return Ok{};
  PERI_ASSIGN(m->kind, kind_of(node));
  const std::vector<double> parameters = node.floats("kernel_params");
  if (!parameters.empty() && parameters.size() != 3) return does_not_fit("kernel_params", 3, parameters.size());
  if (!parameters.empty()) {
    m->gamma = parameters[0];
    m->coef0 = parameters[1];
    m->degree = std::trunc(parameters[2]);
  }
  const auto count = static_cast<int64_t>(m->support.size());
  if (count == 0 || count % m->vectors != 0) return does_not_fit("support_vectors", m->vectors, m->support.size());
  m->features = count / m->vectors;
  return Ok{};
}

}  // namespace

Result<Machine> read_regressor(const ir::Node& node) {
  Machine m;
  m.vectors = node.i("n_supports", 0);
  if (m.vectors < 0) return invalid("n_supports is negative");
  PERI_TRY(read_kernel(node, &m));
  if (m.transform != Transform::kNone) return unsupported("a post_transform of SVMRegressor").expecting("NONE");
  m.one_class = node.i("one_class", 0) != 0;
  if (m.vectors == 0) m.features = static_cast<int64_t>(m.coefficients.size());
  if (m.vectors != 0 && static_cast<int64_t>(m.coefficients.size()) != m.vectors)
    return does_not_fit("coefficients", m.vectors, m.coefficients.size());
  if (m.rho.size() != 1) return does_not_fit("rho", 1, m.rho.size());
  return m;
}

Result<Machine> read_classifier(const ir::Node& node) {
  Machine m;
  if (const auto it = node.attrs.find("classlabels_strings"); it != node.attrs.end())
    m.names = std::get<std::vector<std::string>>(it->second);
  m.numbers = node.ints("classlabels_ints");
  m.classes = static_cast<int64_t>(m.names.empty() ? m.numbers.size() : m.names.size());
  if (m.classes < 2) return unsupported("a support vector machine of fewer than two classes");
  m.each = node.ints("vectors_per_class");
  for (const int64_t n : m.each) {
    if (n < 0 || n > INT32_MAX) return invalid("vectors_per_class is out of range");
    m.first.push_back(m.vectors);
    m.vectors += n;
  }
  PERI_TRY(read_kernel(node, &m));
  const auto count = static_cast<int64_t>(m.coefficients.size());
  m.prob_a = node.floats("prob_a");
  m.prob_b = node.floats("prob_b");
  if (m.vectors == 0) {
    if (count % m.classes != 0) return does_not_fit("coefficients", m.classes, m.coefficients.size());
    m.features = count / m.classes;
    if (m.rho.empty()) return does_not_fit("rho", 1, 0);
    return m;
  }
  if (static_cast<int64_t>(m.each.size()) != m.classes)
    return does_not_fit("vectors_per_class", m.classes, m.each.size());
  if (count != (m.classes - 1) * m.vectors)
    return does_not_fit("coefficients", (m.classes - 1) * m.vectors, m.coefficients.size());
  if (static_cast<int64_t>(m.rho.size()) != m.pairs()) return does_not_fit("rho", m.pairs(), m.rho.size());
  m.has_probabilities = !m.prob_a.empty();
  for (const auto* p : {&m.prob_a, &m.prob_b})
    if (m.has_probabilities && static_cast<int64_t>(p->size()) != m.pairs())
      return does_not_fit("prob_a and prob_b", m.pairs(), p->size());
  return m;
}

namespace {
// What share of 1 each class has where `pair[a][b]` is that of a among a and b: the fixed point that libsvm walks to.
std::vector<double> shares_of(const std::vector<std::vector<double>>& pair) {
  const size_t n = pair.size();
  std::vector<std::vector<double>> q(n, std::vector<double>(n));
  for (size_t t = 0; t < n; ++t)
    for (size_t k = 0; k < n; ++k)
      if (k != t) {
        q[t][t] += pair[k][t] * pair[k][t];
        q[t][k] = -pair[k][t] * pair[t][k];
      }
  std::vector<double> p(n, 1.0 / static_cast<double>(n)), qp(n);
  for (size_t round = 0; round < std::max<size_t>(100, n); ++round) {
    double all = 0, most = 0;
    for (size_t t = 0; t < n; ++t) {
      qp[t] = 0;
      for (size_t k = 0; k < n; ++k) qp[t] += q[t][k] * p[k];
      all += p[t] * qp[t];
    }
    for (const double v : qp) most = std::max(most, std::fabs(v - all));
    if (most < 0.005 / static_cast<double>(n)) break;
    for (size_t t = 0; t < n; ++t) {
      const double by = (all - qp[t]) / q[t][t];
      p[t] += by;
      all = (all + by * (by * q[t][t] + 2 * qp[t])) / (1 + by) / (1 + by);
      for (size_t k = 0; k < n; ++k) {
        qp[k] = (qp[k] + by * q[t][k]) / (1 + by);
        p[k] /= 1 + by;
      }
    }
  }
  return p;
}
}  // namespace

std::vector<double> probabilities_of(const Machine& m, const std::vector<double>& scores) {
  const auto n = static_cast<size_t>(m.classes);
  std::vector<std::vector<double>> pair(n, std::vector<double>(n));
  size_t at = 0;
  for (size_t a = 0; a < n; ++a)
    for (size_t b = a + 1; b < n; ++b, ++at) {
      const double p = 1 / (1 + std::exp(scores[at] * m.prob_a[at] + m.prob_b[at]));
      pair[a][b] = std::clamp(p, 1e-7, 1 - 1e-7);
      pair[b][a] = 1 - pair[a][b];
    }
  return shares_of(pair);
}

}  // namespace peri::ops
