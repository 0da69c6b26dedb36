// Index sets of reductions.
#include "ops/reference/reduce.hpp"

#include <algorithm>

#include "ops/shape/content.hpp"

namespace peri::ops {

Result<std::vector<int64_t>> reduced_axes(const ir::Node& node, size_t rank) {
  std::vector<int64_t> axes;
  if (node.in(1)) {
    const ir::Type& type = node.in(1)->type;
    std::optional<std::vector<int64_t>> known = known_ints(node.in(1));
    if (type.shape && type.shape->size() == 1 && (*type.shape)[0].is_const(0)) known.emplace();
    if (!known)
      return unsupported("the axes of a reduction must be a constant").advise("export the model with fixed axes");
    PERI_ASSIGN(axes, normalize_axes(*std::move(known), rank));
  }
  if (axes.empty() && node.i("noop_with_empty_axes", 0) == 0)
    for (size_t k = 0; k < rank; ++k) axes.push_back(static_cast<int64_t>(k));
  return axes;
}

Shape reduced_shape(const Shape& in, std::span<const int64_t> axes, bool keepdims) {
  Shape out;
  for (size_t k = 0; k < in.size(); ++k) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(k)) != axes.end();
    if (!reduced)
      out.push_back(in[k]);
    else if (keepdims)
      out.push_back(Dim(1));
  }
  return out;
}

Reduction::Reduction(const std::vector<int64_t>& in, std::span<const int64_t> axes) : offsets_{0} {
  const std::vector<int64_t> strides = strides_of(in);
  const bool empty = std::find(in.begin(), in.end(), 0) != in.end();
  for (size_t k = 0; k < in.size(); ++k) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(k)) == axes.end()) {
      kept_dims_.push_back(in[k]);
      kept_strides_.push_back(strides[k]);
      continue;
    }
    if (in[k] == 0) offsets_.clear();
    if (empty) continue;  // nothing is there to be reduced, however long the other axes are
    std::vector<int64_t> more;
    more.reserve(offsets_.size() * static_cast<size_t>(in[k]));
    for (int64_t o : offsets_)
      for (int64_t i = 0; i < in[k]; ++i) more.push_back(o + i * strides[k]);
    offsets_ = std::move(more);
  }
}

bool pull_reduced(const ir::Node& node, size_t port, std::span<const int64_t> positions, std::vector<int64_t>* needed) {
  if (port != 0) return false;
  const std::vector<int64_t> in = concrete(*node.in(0));
  auto axes = reduced_axes(node, in.size());
  if (!axes.ok()) return false;
  const Reduction r(in, *axes);
  needed->clear();
  for (int64_t p : positions)
    for (int64_t o : r.offsets()) needed->push_back(r.base(p) + o);
  sort_unique(needed);
  return true;
}

void pull_lines(const std::vector<int64_t>& dims, int64_t axis, std::span<const int64_t> positions,
                std::vector<int64_t>* needed) {
  const int64_t stride = strides_of(dims)[static_cast<size_t>(axis)], length = dims[static_cast<size_t>(axis)];
  std::vector<int64_t> lines;
  for (int64_t p : positions) lines.push_back(p - p / stride % length * stride);
  sort_unique(&lines);
  needed->clear();
  for (int64_t line : lines)
    for (int64_t k = 0; k < length; ++k) needed->push_back(line + k * stride);
  sort_unique(needed);
}

}  // namespace peri::ops
