// Indices computed by models, checked against the extent that they index; products of ranges of dims.
#pragma once

#include "ops/entry.hpp"

namespace peri::ops {

// An index in [-extent, extent) made non-negative; otherwise an error that names the index, the extent and `axis`.
inline Result<int64_t> checked_index(int64_t index, int64_t extent, int64_t axis) {
  if (index < -extent || index >= extent)
    return invalid("an index is out of range")
        .expecting(format("[%lld, %lld) along axis %lld", static_cast<long long>(-extent),
                          static_cast<long long>(extent), static_cast<long long>(axis)))
        .but_found(std::to_string(index));
  return index < 0 ? index + extent : index;
}

// Implementations of OpDef::index_ends for common kinds of indices; empty where shapes are not known. This one: into
// the axis of input `port` that attribute `axis` (by default `fallback`) names.
inline std::vector<Dim> axis_end(const ir::Node& node, int64_t fallback, size_t port = 0) {
  if (!node.in(port)->type.known()) return {};
  const Shape& shape = *node.in(port)->type.shape;
  const int64_t rank = static_cast<int64_t>(shape.size()), axis = node.i("axis", fallback);
  if (axis < -rank || axis >= rank) return {};
  return {shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)]};
}
// Into the first axis of `v`.
inline std::vector<Dim> leading_end(const ir::Value* v) {
  if (!v->type.known() || v->type.rank() == 0) return {};
  return {(*v->type.shape)[0]};
}
// Tuples that index the axes of input 0 from `first` on, as many as the last axis of the indices, input 1, has
// elements.
inline std::vector<Dim> leading_ends(const ir::Node& node, int64_t first) {
  if (!node.in(0)->type.known() || !node.in(1)->type.known() || node.in(1)->type.rank() == 0) return {};
  const Shape& data = *node.in(0)->type.shape;
  const Dim& depth = node.in(1)->type.shape->back();
  if (!depth.is_const() || first < 0 || depth.value() < 0 || first + depth.value() > static_cast<int64_t>(data.size()))
    return {};
  return {data.begin() + first, data.begin() + first + depth.value()};
}

// Product of dims[begin, end).
inline int64_t span_of(const std::vector<int64_t>& dims, size_t begin, size_t end) {
  int64_t n = 1;
  for (size_t k = begin; k < end; ++k) n *= dims[k];
  return n;
}

}  // namespace peri::ops
