// Replaces a classifier with names by one with numbers and a gather.
#include "ops/shape/class_names.hpp"

#include <numeric>

#include "ops/shape/composed.hpp"

namespace peri::ops {

Status number_classes(ir::Graph& graph, ir::Node& node, std::string_view numbers) {
  const auto it = node.attrs.find("classlabels_strings");
  if (it == node.attrs.end() || std::get<std::vector<std::string>>(it->second).empty()) return Ok{};
  const auto names = std::get<std::vector<std::string>>(it->second);
  PERI_ASSIGN(Tensor list, Tensor::strings({std::ssize(names)}, names));
  std::vector<int64_t> places(names.size());
  std::iota(places.begin(), places.end(), int64_t{0});
  ir::Attrs attrs = node.attrs;
  attrs.erase("classlabels_strings");
  attrs.insert_or_assign(std::string(numbers), std::move(places));
  Composed c(graph, node);
  const std::vector<ir::Value*> made =
      c.ops(node.op, node.inputs, std::move(attrs), static_cast<int>(node.outputs.size()));
  c.give(0, c.op("gather", {c.constant(std::move(list)), made[0]}, {{"axis", int64_t{0}}}));
  for (size_t k = 1; k < made.size(); ++k) c.give(k, made[k]);
  return c.done();
}

}  // namespace peri::ops
