// Relations and arithmetic on contents.
#include "ops/shape/content.hpp"

namespace peri::ops {

Truth equals(const Dim& a, const Dim& b) {
  if (a == b) return Truth::kYes;
  if (provably_at_least(a - b, 1) || provably_at_least(b - a, 1)) return Truth::kNo;
  return Truth::kUnknown;
}
Truth less(const Dim& a, const Dim& b) {
  if (provably_at_least(b - a, 1)) return Truth::kYes;
  if (provably_at_least(a - b, 0)) return Truth::kNo;
  return Truth::kUnknown;
}

std::optional<Dim> truncating_div(const Dim& a, const Dim& b) {
  if (b.is_const(0) || a.is_poison() || b.is_poison()) return std::nullopt;
  const Dim zero(0);
  if (b.is_const() && b.value() < 0) {
    if (b.is_const(-1)) return zero - a;
    return b.value() == INT64_MIN ? std::nullopt : truncating_div(zero - a, zero - b);
  }
  if (a.is_const() && b.is_const()) return Dim(a.value() / b.value());
  if (!provably_at_least(b, 1)) return std::nullopt;
  if (provably_at_least(a, 0)) return floordiv(a, b);
  if (provably_at_least(zero - a, 0)) return zero - floordiv(zero - a, b);
  Dim q = floordiv(a, b);
  if (q * b == a) return q;                                             // exact: no rounding to tell apart
  return floordiv(max(a, zero), b) - floordiv(max(zero - a, zero), b);  // one of the two is 0
}

Dim is_less(const Dim& a, const Dim& b) {
  const Truth t = less(a, b);
  if (t != Truth::kUnknown) return Dim(t == Truth::kYes ? 1 : 0);
  return min(max(b - a, Dim(0)), Dim(1));
}
Dim is_equal(const Dim& a, const Dim& b) {
  const Truth t = equals(a, b);
  if (t != Truth::kUnknown) return Dim(t == Truth::kYes ? 1 : 0);
  return Dim(1) - min(max(a - b, b - a), Dim(1));
}

std::optional<std::vector<int64_t>> countable(const ir::Type& type) {
  if (!type.known()) return std::nullopt;
  std::vector<int64_t> dims;
  double count = 1;
  for (const Dim& d : *type.shape) {
    if (!d.is_const() || d.value() < 0) return std::nullopt;
    dims.push_back(d.value());
    count *= static_cast<double>(d.value());
  }
  return count <= static_cast<double>(kMaxContent) ? std::optional(std::move(dims)) : std::nullopt;
}
std::optional<Known> known_input(const InferContext& c, size_t port) {
  const std::vector<Dim>* elements = c.elements(port);
  auto dims = elements ? countable(c.in(port)) : std::nullopt;
  if (!dims || numel_of(*dims) != static_cast<int64_t>(elements->size())) return std::nullopt;
  return Known{*elements, *std::move(dims)};
}

void content_same(InferContext& c) {
  content_moved(c, 0, [](int64_t p, const std::vector<int64_t>&, const std::vector<int64_t>&) { return p; });
}

bool one_element(const InferContext& c, size_t port) {
  return c.rank(port) == 0 || (c.rank(port) == 1 && c.shape(port)[0].is_const(1));
}

std::optional<std::vector<int64_t>> numbers_of(const InferContext& c, size_t port) {
  if (c.rank(port) == 1 && c.shape(port)[0].is_const(0)) return std::vector<int64_t>();
  const std::vector<Dim>* known = c.known(port);
  if (!known) return std::nullopt;
  std::vector<int64_t> out;
  for (const Dim& d : *known) {
    if (!d.is_const()) return std::nullopt;
    out.push_back(d.value());
  }
  return out;
}

Shape fresh_shape(InferContext& c, size_t rank, std::string_view stem) {
  Shape out;
  for (size_t k = 0; k < rank; ++k) out.push_back(c.fresh(stem));
  return out;
}

std::vector<std::optional<Dim>> joined_elements(const ir::Value& list) {
  std::vector<std::optional<Dim>> out;
  if (!list.producer || list.producer->op != "concat") return out;  // By name: what joins sizes
  for (const ir::Value* part : list.producer->inputs) {
    const auto dims = part ? countable(part->type) : std::nullopt;
    if (!dims || dims->size() != 1) return {};
    const auto& constant = part->constant;
    for (size_t k = 0; k < static_cast<size_t>(dims->front()); ++k) {
      std::optional<Dim> known;
      if (constant) known = Dim(constant->i64(static_cast<int64_t>(k)));
      if (!constant && part->content && k < part->content->size()) known = (*part->content)[k];
      out.push_back(known && !known->is_const(-1) ? known : std::nullopt);  // what -1 stands for follows from all
    }
  }
  return out;
}

Result<Shape> shape_from(InferContext& c, size_t port, std::string_view stem, int64_t most) {
  if (const std::vector<Dim>* known = c.known(port)) return Shape(*known);
  if (c.rank(port) != 1)
    return invalid("a shape must be a list").expecting("rank 1").but_found(std::to_string(c.rank(port)));
  const Dim& count = c.shape(port)[0];
  if (!count.is_const())
    return unsupported("the rank of an output depends on data").advise("export the model with a fixed rank");
  const auto joined = joined_elements(*c.node.in(port));
  Shape out;
  for (int64_t k = 0; k < count.value() && k < most; ++k) {
    const bool known = std::ssize(joined) == count.value() && joined[static_cast<size_t>(k)];
    out.push_back(known ? *joined[static_cast<size_t>(k)] : c.fresh(stem));
  }
  return out;
}

}  // namespace peri::ops
