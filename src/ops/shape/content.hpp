// Contents: the elements of small integer tensors as dimension expressions, so that shape arithmetic in a model is
// solved during shape inference.
#pragma once

#include "ops/reference/elements.hpp"
#include "ops/shape/followed.hpp"

namespace peri::ops {

// Whether a relation between two expressions is the same for every assignment of symbols (>= 1; >= 0 for those that
// depend on the data).
enum class Truth { kNo, kYes, kUnknown };
Truth equals(const Dim& a, const Dim& b);
Truth less(const Dim& a, const Dim& b);

// a / b truncated towards zero, where b is a number or provably positive.
std::optional<Dim> truncating_div(const Dim& a, const Dim& b);
// Truth values as expressions that are 0 or 1.
Dim is_less(const Dim& a, const Dim& b);
Dim is_equal(const Dim& a, const Dim& b);

inline int64_t numel_of(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

// The types whose contents are tracked: those used for shapes and indices.
constexpr TypeSet kContentTypes = kIndex | kBools;
// A number that does not fit its type would wrap: no content then.
inline bool fits(DType t, const Dim& d) {
  return t != DType::kI32 || !d.is_const() || (d.value() >= INT32_MIN && d.value() <= INT32_MAX);
}

// The dims of a type if its shape is all numbers and has at most kMaxContent elements; none otherwise.
std::optional<std::vector<int64_t>> countable(const ir::Type& type);
// The elements of input `port` and its dims, if both are known.
struct Known {
  const std::vector<Dim>& elements;
  std::vector<int64_t> dims;
};
std::optional<Known> known_input(const InferContext& c, size_t port);

// Content of output 0 of an element-wise op over the first `inputs` inputs (0: all), broadcast, if each is known and
// `f` returns a value for every element. `f` gets one Dim per input. REQUIRES the type of output 0 set.
template <class F>
void content_elementwise(InferContext& c, F f, size_t inputs = 0) {
  const auto dims = countable(c.out[0]);
  if (!dims) return;
  std::vector<Known> known;
  std::vector<Under> under;
  for (size_t i = 0; i < (inputs ? inputs : c.node.inputs.size()); ++i) {
    auto input = known_input(c, i);
    if (!input || !contains(kContentTypes, c.dtype(i))) return;
    under.emplace_back(input->dims, *dims);
    known.push_back(*std::move(input));
  }
  std::vector<Dim> out, arguments(known.size());
  for (int64_t p = 0; p < numel_of(*dims); ++p) {
    for (size_t i = 0; i < known.size(); ++i) arguments[i] = known[i].elements[static_cast<size_t>(under[i](p))];
    std::optional<Dim> value = f(arguments);
    if (!value || value->is_poison() || !fits(c.out[0].dtype, *value)) return;
    out.push_back(*std::move(value));
  }
  c.set_content(0, std::move(out));
}

// Content of output `k` of an op that only copies elements: element p is element source(p, in, out) of input 0, with
// the dims of both. REQUIRES the type of output k set.
template <class F>
void content_moved(InferContext& c, size_t k, F source) {
  const auto to = countable(c.out[k]);
  const auto from = known_input(c, 0);
  if (!to || !from) return;
  std::vector<Dim> out;
  for (int64_t p = 0; p < numel_of(*to); ++p)
    out.push_back(from->elements[static_cast<size_t>(source(p, from->dims, *to))]);
  c.set_content(k, std::move(out));
}

// Output 0 has the elements of input 0 in order. REQUIRES the type of output 0 set.
void content_same(InferContext& c);

// Whether input `port` has exactly one element: rank 0, or [1].
bool one_element(const InferContext& c, size_t port);

// The numbers in input `port`, an empty list if its shape is empty; none if they are known only at run time.
std::optional<std::vector<int64_t>> numbers_of(const InferContext& c, size_t port);
// A shape of `rank` new dimensions, for an op whose axes are known only at run time.
Shape fresh_shape(InferContext& c, size_t rank, std::string_view stem);

// The elements of a list that a concat joins, as far as they are known beside some that are not; empty: it is none.
std::vector<std::optional<Dim>> joined_elements(const ir::Value& list);

// Shape given by the content of input `port` (a rank-1 integer tensor). Unknown elements become fresh dimensions named
// from `stem`; error if even the number of elements is unknown.
Result<Shape> shape_from(InferContext& c, size_t port, std::string_view stem, int64_t most = 33);

}  // namespace peri::ops
