// Axes of a resize.
#include "kernels/match/resize_match.hpp"

namespace peri::kernels {

Result<std::vector<ops::AxisGeometry>> resize_geometry(const ir::Node& n, const std::vector<int64_t>& x,
                                                       const std::vector<int64_t>& y) {
  if (n.has("axes") || n.s("keep_aspect_ratio_policy", "stretch") != "stretch")
    return refused("axes, or a kept aspect ratio");
  if (n.s("coordinate_transformation_mode") == "tf_crop_and_resize") return refused("a region of interest");
  const ir::Value* scales = n.in(2);
  const bool stated = scales && !(scales->type.rank() == 1 && (*scales->type.shape)[0].is_const(0));
  if (stated && (!scales->constant || scales->constant->numel() != static_cast<int64_t>(x.size())))
    return refused("scales that are not constant");
  std::vector<ops::AxisGeometry> out;
  for (size_t k = 0; k < x.size(); ++k) {
    ops::AxisGeometry g;
    g.in = x[k];
    g.out = y[k];
    g.scale =
        stated ? scales->constant->f64(static_cast<int64_t>(k)) : static_cast<double>(y[k]) / static_cast<double>(x[k]);
    g.whole = g.scale == 1 && g.in == g.out;
    if (!(g.scale > 0) || (stated && ops::scaled_extent(g.in, g.scale) != g.out))
      return refused("sizes that its scales do not give");
    out.push_back(g);
  }
  return out;
}

}  // namespace peri::kernels
