// Updates of the same element.
#include "ops/reference/scatter.hpp"

#include <algorithm>

namespace peri::ops {

Result<Reduction> reduction_of(const ir::Node& node) {
  const std::string word = node.s("reduction", "none");
  if (word == "none") return Reduction::kNone;
  if (word == "add") return Reduction::kAdd;
  if (word == "mul") return Reduction::kMul;
  if (word == "max") return Reduction::kMax;
  if (word == "min") return Reduction::kMin;
  return invalid("reduction is unknown").expecting("none, add, mul, max or min").but_found(word);
}

Scatter::Scatter(Reduction how, const RefTensor& data, RefTensor& y, double u) : how_(how), y_(y), u_(u) {
  y.f = data.f;
  y.i = data.i;
  y.s = data.s;
  if (!y.floating()) return;
  if (data.radius.empty()) {
    y.radius.assign(y.f.size(), 0.0);
  } else {
    y.radius = data.radius;
  }
  if (how != Reduction::kAdd && how != Reduction::kMul) return;
  count_.assign(y.f.size(), 0);
  for (double v : y.f) magnitude_.push_back(std::fabs(v));
}

void Scatter::apply(int64_t to, const RefTensor& updates, int64_t from) {
  if (how_ == Reduction::kNone) {
    copy_element(updates, from, y_, to);
  } else if (y_.floating()) {
    apply_float(static_cast<size_t>(to), updates.f[static_cast<size_t>(from)], updates.r(from));
  } else if (y_.dtype != DType::kString) {
    apply_integer(static_cast<size_t>(to), updates.i[static_cast<size_t>(from)]);
  }
}

void Scatter::apply_float(size_t to, double v, double r) {
  double &y = y_.f[to], &radius = y_.radius[to];
  switch (how_) {
    case Reduction::kAdd:
      y += v;
      radius += r;
      magnitude_[to] += std::fabs(v);
      ++count_[to];
      break;
    case Reduction::kMul:
      radius = std::fabs(y) * r + radius * std::fabs(v) + radius * r;
      y *= v;
      magnitude_[to] = std::fabs(y);
      ++count_[to];
      break;
    default:  // NaN wins over numbers, as in the other reductions
      if (std::isnan(v) || (!std::isnan(y) && (how_ == Reduction::kMax ? v > y : v < y))) y = v;
      radius = std::max(radius, r);
  }
}

void Scatter::apply_integer(size_t to, int64_t v) {
  int64_t& y = y_.i[to];
  const DType t = y_.dtype;
  const uint64_t a = static_cast<uint64_t>(y), b = static_cast<uint64_t>(v);
  switch (how_) {
    case Reduction::kAdd: y = t == DType::kBool ? y | v : wrap(t, static_cast<int64_t>(a + b)); break;
    case Reduction::kMul: y = t == DType::kBool ? y & v : wrap(t, static_cast<int64_t>(a * b)); break;
    case Reduction::kMax: y = int_less(t, y, v) ? v : y; break;
    default: y = int_less(t, v, y) ? v : y;
  }
}

void Scatter::finish() {
  if (!y_.floating()) return;
  for (size_t k = 0; k < y_.f.size(); ++k) {
    if (!count_.empty() && count_[k] > 0)
      y_.radius[k] += sum_radius(u_, count_[k] + 1, magnitude_[k]) *
                      (how_ == Reduction::kMul ? std::sqrt(static_cast<double>(count_[k])) : 1);
    if (!std::isfinite(y_.f[k])) y_.radius[k] = 0;
  }
}

}  // namespace peri::ops
