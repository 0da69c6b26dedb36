// Small values that the reference can compute at compile time.
#include <algorithm>

#include "ir/bodies.hpp"
#include "ops/control/bodies.hpp"

namespace peri::ops {

namespace {
constexpr int kMaxComputed = 64;  // nodes
constexpr int64_t kMaxComputedElements = 1024;

std::optional<Tensor> computed(const ir::Value& v, int* left) {
  if (v.constant) return v.constant->numel() <= kMaxComputedElements ? v.constant : std::nullopt;
  if (!v.type.known() || !is_const(*v.type.shape)) return std::nullopt;
  const auto dims = eval(*v.type.shape, {});
  const auto count = dims.ok() ? checked_numel(*dims) : Result<int64_t>(int64_t{-1});
  if (!count.ok() || *count < 0 || *count > kMaxComputedElements) return std::nullopt;
  if (v.content && static_cast<int64_t>(v.content->size()) == *count &&
      std::all_of(v.content->begin(), v.content->end(), [](const Dim& d) { return d.is_const(); })) {
    auto t = Tensor::zeros(v.type.dtype, *dims);
    if (!t.ok()) return std::nullopt;
    for (int64_t k = 0; k < *count; ++k) t->set_i64(k, (*v.content)[static_cast<size_t>(k)].value());
    return std::move(t).value();
  }
  const ir::Node* n = v.producer;
  if (!n || --*left < 0 || ir::has_bodies(*n) || n->op == "dims_constant") return std::nullopt;
  ir::Graph g;
  std::vector<ir::Value*> inputs;
  for (const ir::Value* in : n->inputs) {
    std::optional<Tensor> t = in ? computed(*in, left) : std::nullopt;
    if (in && !t) return std::nullopt;
    inputs.push_back(in ? g.add_constant(in->name, *std::move(t)) : nullptr);
  }
  ir::Node* copy = g.add(n->op, inputs, n->attrs, "", static_cast<int>(n->outputs.size()));
  g.mark_output(copy->outputs[static_cast<size_t>(v.output_index)], "value");
  if (!infer_graph(g).ok()) return std::nullopt;
  const auto out = run_reference(g, {}, {0, 1, true});
  if (!out.ok()) return std::nullopt;
  return from_ref((*out)[0]);
}
}  // namespace

std::optional<Tensor> computed_constant(const ir::Value& v) {
  int left = kMaxComputed;
  return computed(v, &left);
}

std::optional<int64_t> known_element(const ir::Value& v) {
  if (v.content && v.content->size() == 1 && (*v.content)[0].is_const()) return (*v.content)[0].value();
  if (v.constant && v.constant->numel() == 1 && !is_float(v.constant->dtype()) && v.constant->dtype() != DType::kString)
    return v.constant->i64(0);
  return std::nullopt;
}

}  // namespace peri::ops
