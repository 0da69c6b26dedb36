// Only the requested number of elements is sorted.
#include "serve/kserve/classes.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace peri::serve {
namespace {

std::string value_text(const Tensor& t, int64_t at) {
  if (t.dtype() == DType::kU64) return std::to_string(static_cast<uint64_t>(t.i64(at)));
  if (is_integer(t.dtype()) || t.dtype() == DType::kBool) return std::to_string(t.i64(at));
  return std::to_string(t.f64(at));
}

// Whether element `a` precedes element `b`: by value, then by index.
bool ahead(const Tensor& t, int64_t a, int64_t b) {
  if (t.dtype() == DType::kU64 && t.i64(a) != t.i64(b))
    return static_cast<uint64_t>(t.i64(a)) > static_cast<uint64_t>(t.i64(b));
  if (is_integer(t.dtype())) return t.i64(a) != t.i64(b) ? t.i64(a) > t.i64(b) : a < b;
  const double x = t.f64(a), y = t.f64(b);
  if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
  return x != y && !std::isnan(x) ? x > y : a < b;
}

// `batch`: each row of the first axis has classes of its own.
Result<Tensor> classes_of(const Tensor& t, int64_t wanted, bool batch, const std::vector<std::string>& labels) {
  const int64_t rows = batch && t.rank() > 0 ? t.dims()[0] : 1;
  const int64_t each = rows > 0 ? t.numel() / rows : 0, count = std::min(wanted, each);
  std::vector<std::string> out;
  std::vector<int64_t> order(static_cast<size_t>(each));
  for (int64_t row = 0; row < rows; ++row) {
    std::iota(order.begin(), order.end(), row * each);
    std::partial_sort(order.begin(), order.begin() + count, order.end(),
                      [&](int64_t a, int64_t b) { return ahead(t, a, b); });
    for (int64_t k = 0; k < count; ++k) {
      const int64_t at = order[static_cast<size_t>(k)], index = at - row * each;
      std::string text = value_text(t, at) + ":" + std::to_string(index);
      if (static_cast<size_t>(index) < labels.size() && !labels[static_cast<size_t>(index)].empty())
        text += ":" + labels[static_cast<size_t>(index)];
      out.push_back(std::move(text));
    }
  }
  std::vector<int64_t> dims = {count};
  if (batch && t.rank() > 0) dims.insert(dims.begin(), rows);
  return Tensor::strings(std::move(dims), std::move(out));
}
}  // namespace

Status answer_classes(const Served& served, const std::vector<InferRequest::Wanted>& wanted,
                      std::vector<Tensor>* outputs) {
  const auto ports = served.model->outputs();
  for (const InferRequest::Wanted& w : wanted) {
    if (w.classes == 0) continue;
    Tensor& t = (*outputs)[w.port];
    const std::string& name = ports[w.port].name;
    if (t.dtype() == DType::kString) return invalid("output '%s' is of texts, which have no classes", name.c_str());
    const auto labels = served.labels.find(name);
    // Without max_batch_size too, a first axis of any size is rows, as long as these have more than an element.
    const Shape& shape = ports[w.port].shape;
    const bool rows = shape.size() > 1 && !shape[0].is_const();
    static const std::vector<std::string> kNone;
    PERI_ASSIGN(t, classes_of(t, w.classes, served.config.max_batch_size > 0 || rows,
                              labels == served.labels.end() ? kNone : labels->second));
  }
  return Ok{};
}

}  // namespace peri::serve
