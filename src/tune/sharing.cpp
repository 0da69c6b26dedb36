// Checks offers of memory sharing against the region's types.
#include "tune/sharing.hpp"

#include <algorithm>

namespace peri::tune {

Status check_sharing(const ir::Graph& region, const std::vector<bool>& weights, const kernels::Offer& offer) {
  const std::vector<int>& in_place = offer.in_place;
  const auto wrong = [](const std::string& what) { return Error(ErrorKind::kAccuracy, what); };
  if (!in_place.empty() && in_place.size() != region.outputs.size())
    return wrong(format("it offers sharing of %zu results of %zu", in_place.size(), region.outputs.size()));
  for (size_t k = 0; k < in_place.size(); ++k) {
    if (in_place[k] < 0) continue;
    const size_t i = static_cast<size_t>(in_place[k]);
    const bool same = i < region.inputs.size() && !weights[i] &&
                      region.inputs[i]->type.dtype == region.outputs[k]->type.dtype &&
                      product(*region.inputs[i]->type.shape) == product(*region.outputs[k]->type.shape);
    if (!same) return wrong(format("it offers output %zu in the memory of input %zu, which is none of its kind", k, i));
  }
  return Ok{};
}

std::vector<int> sharing_of(const ir::Graph& region, const kernels::Offer& o) {
  std::vector<int> out(region.outputs.size(), -1);
  for (size_t k = 0; k < o.in_place.size(); ++k) {
    if (o.in_place[k] < 0 || !is_float(region.outputs[k]->type.dtype) ||
        std::find(out.begin(), out.end(), o.in_place[k]) != out.end())
      continue;
    const size_t i = static_cast<size_t>(o.in_place[k]);
    if (*region.inputs[i]->type.shape == *region.outputs[k]->type.shape && o.inputs[i] == o.outputs[k])
      out[k] = o.in_place[k];
  }
  return out;
}

}  // namespace peri::tune
