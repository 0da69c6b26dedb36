// Contents: the elements of small integer tensors as dimension expressions, so that shape arithmetic in a model is
// solved while shapes are inferred.
#pragma once

#include "ops/entry.hpp"

namespace peri::ops {

// Most elements a content may have.
constexpr int64_t kMaxContent = 1024;

// Whether a relation between two expressions is the same for every assignment of symbols >= 1.
enum class Truth { kNo, kYes, kUnknown };
Truth equals(const Dim& a, const Dim& b);
Truth less(const Dim& a, const Dim& b);

// a / b truncated towards zero, where that is provably floordiv (or both are numbers).
std::optional<Dim> truncating_div(const Dim& a, const Dim& b);

// Contents are kept for these types: what shapes and indices are computed in.
constexpr TypeSet kContentTypes = kIndex | kBools;
// A number that does not fit its type has wrapped: no content.
inline bool fits(DType t, const Dim& d) {
  return t != DType::kI32 || !d.is_const() || (d.value() >= INT32_MIN && d.value() <= INT32_MAX);
}

// Content of output 0 for an element-wise op over broadcast inputs of rank <= 1, if every input is known and `f`
// answers for every element. `f` gets one Dim an input.
template <class F>
void content_elementwise(InferContext& c, F f) {
  const size_t inputs = c.node.inputs.size();
  size_t count = 1;
  bool empty = false;
  for (size_t i = 0; i < inputs; ++i) {
    const std::vector<Dim>* known = c.known(i);
    if (!known || !contains(kContentTypes, c.dtype(i))) return;
    if (known->empty()) empty = true;
    if (known->size() != 1) count = known->size();
  }
  if (!c.out[0].known() || c.out[0].rank() > 1) return;
  if (empty) count = 0;
  std::vector<Dim> out;
  for (size_t k = 0; k < count; ++k) {
    std::vector<Dim> arguments;
    for (size_t i = 0; i < inputs; ++i) arguments.push_back((*c.known(i))[c.known(i)->size() == 1 ? 0 : k]);
    std::optional<Dim> value = f(arguments);
    if (!value || value->is_poison() || !fits(c.out[0].dtype, *value)) return;
    out.push_back(*std::move(value));
  }
  c.set_content(0, std::move(out));
}

// Output 0 has the elements of input 0 in order, if both have rank <= 1.
void content_same(InferContext& c);

// Whether input `port` has exactly one element: rank 0, or [1].
bool one_element(const InferContext& c, size_t port);

// The numbers in input `port`, an empty list if its shape says so; none if they are known only when the model runs.
std::optional<std::vector<int64_t>> numbers_of(const InferContext& c, size_t port);
// A shape of `rank` new dimensions, for an op whose axes are known only when the model runs.
Shape fresh_shape(InferContext& c, size_t rank, std::string_view stem);

// Shape given by the content of input `port` (a rank-1 integer tensor). Unknown elements become fresh dimensions named
// from `stem`; error if even the number of elements is unknown.
Result<Shape> shape_from(InferContext& c, size_t port, std::string_view stem);

}  // namespace peri::ops
