// Layouts set in copies of graphs.
#include "kernels/cuda/code/layouts.hpp"

namespace peri::kernels::cuda {

ir::Layout channels_last(size_t rank) {
  ir::Layout out;
  out.order.push_back(0);
  for (size_t k = 2; k < rank; ++k) out.order.push_back(static_cast<uint8_t>(k));
  out.order.push_back(1);
  return out;
}

ir::Graph with_layouts(const Problem& p, const ir::Layout& image, const ir::Layout& result, Offer* offer) {
  ir::Graph g = p.graph->clone();
  const size_t rank = g.outputs[0]->type.rank();
  const ir::Value* const x = Problem{&g, p.constant}.anchor().in(0);
  for (size_t k = 0; k < g.inputs.size(); ++k) {
    ir::Type& type = g.inputs[k]->type;
    type.layout = {};
    if (p.constant[k]) continue;
    if (g.inputs[k] == x && (image.row_major() || image.order.size() == type.rank()))
      type.layout = image;
    else if (type.rank() == rank)
      type.layout = result;
    offer->inputs[k] = type.layout;
  }
  for (size_t k = 0; k < g.outputs.size(); ++k) offer->outputs[k] = g.outputs[k]->type.layout = result;
  return g;
}

}  // namespace peri::kernels::cuda
