// Kernel resize_f32: nearest and linear resize of the two spatial dimensions, row-major or NHWC.
#include <algorithm>

#include "kernels/cpu/pool/resize.hpp"
#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {
namespace pool = cpu::pool;

Result<pool::Coordinates> coordinates_of(const std::string& mode) {
  if (mode == "half_pixel") return pool::Coordinates::kHalfPixel;
  if (mode == "pytorch_half_pixel") return pool::Coordinates::kPytorchHalfPixel;
  if (mode == "align_corners") return pool::Coordinates::kAlignCorners;
  if (mode == "asymmetric") return pool::Coordinates::kAsymmetric;
  return refused("coordinates by %s", mode.c_str());
}
Result<pool::Nearest> nearest_of(const std::string& mode) {
  if (mode == "round_prefer_floor") return pool::Nearest::kRoundPreferFloor;
  if (mode == "round_prefer_ceil") return pool::Nearest::kRoundPreferCeil;
  if (mode == "floor") return pool::Nearest::kFloor;
  if (mode == "ceil") return pool::Nearest::kCeil;
  if (mode == "simple") return pool::Nearest::kSimple;
  return refused("nearest by %s", mode.c_str());
}

// Scales as the model states them: given ones, else out / in.
Result<std::vector<double>> scales_of(const ir::Node& n, const std::vector<int64_t>& x, const std::vector<int64_t>& y) {
  std::vector<double> out;
  const ir::Value* given = n.in(2);
  const bool stated = given && !(given->type.rank() == 1 && (*given->type.shape)[0].is_const(0));
  if (stated && !given->constant) return refused("scales that are not constant");
  for (size_t k = 0; k < x.size(); ++k) {
    if (stated)
      out.push_back(given->constant->f64(static_cast<int64_t>(k)));
    else
      out.push_back(static_cast<double>(y[k]) / static_cast<double>(x[k]));
  }
  return out;
}

Result<pool::ResizeShape> read(const Problem& p, bool nhwc) {
  const ir::Node& n = p.anchor();
  if (n.op != "resize") return refused("not a resize");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  if (n.in(0)->type.dtype != DType::kF32 || n.in(0)->type.rank() != 4)
    return refused("takes f32 with two spatial dimensions only");
  if (n.has("axes") || n.i("antialias") || n.i("exclude_outside") ||
      n.s("keep_aspect_ratio_policy", "stretch") != "stretch")
    return refused("axes, antialias, exclude_outside or a kept aspect ratio");
  const std::string mode = n.s("mode", "nearest");
  if (mode != "nearest" && mode != "linear") return refused("mode %s", mode.c_str());
  const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.out());
  if (std::count(x.begin(), x.end(), 0) + std::count(y.begin(), y.end(), 0)) return refused("an empty tensor");
  if (x[0] != y[0] || x[1] != y[1]) return refused("resizes batch or channels");
  constexpr int64_t kMaxPlaces = 1 << 20;  // a table made by planning has an entry for each
  if (std::max(y[2], y[3]) > kMaxPlaces)
    return refused("more than %lld places in an axis", static_cast<long long>(kMaxPlaces));
  PERI_ASSIGN(const std::vector<double> scale, scales_of(n, x, y));
  if (scale[0] != 1 || scale[1] != 1 || !(scale[2] > 0) || !(scale[3] > 0)) return refused("resizes batch or channels");
  PERI_ASSIGN(const pool::Coordinates c, coordinates_of(n.s("coordinate_transformation_mode", "half_pixel")));
  pool::ResizeShape s;
  s.layout = nhwc ? pool::Layout::kNhwc : pool::Layout::kNchw;
  s.batch = x[0];
  s.channels = x[1];
  s.in_h = x[2];
  s.in_w = x[3];
  if (mode == "linear") {
    s.h = pool::linear_taps(x[2], y[2], scale[2], c);
    s.w = pool::linear_taps(x[3], y[3], scale[3], c);
  } else {
    PERI_ASSIGN(const pool::Nearest nearest, nearest_of(n.s("nearest_mode", "round_prefer_floor")));
    s.h = pool::nearest_taps(x[2], y[2], scale[2], c, nearest);
    s.w = pool::nearest_taps(x[3], y[3], scale[3], c, nearest);
  }
  return s;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_ASSIGN(const auto isa, cpu::best_isa(target));
  std::vector<Offer> out;
  const auto x = data_argument(p);
  for (bool nhwc : {true, false}) {
    if (nhwc && !x) continue;
    PERI_ASSIGN(const pool::ResizeShape shape, read(p, nhwc));
    PERI_TRY(pool::make_plan(shape, isa));
    Offer o = row_major_offer(p, target);
    if (nhwc) o.inputs[*x] = o.outputs[0] = ir::nhwc();
    out.push_back(std::move(o));
  }
  return out;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  const ir::Layout &in = p.anchor().in(0)->type.layout, &out = p.graph->outputs[0]->type.layout;
  if (!(in == out) || (!in.row_major() && !(in == ir::nhwc()))) return invalid("layouts it does not offer");
  PERI_ASSIGN(const pool::ResizeShape shape, read(p, !in.row_major()));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  PERI_ASSIGN(pool::ResizePlan made, pool::make_plan(shape, isa));
  auto plan = std::make_shared<const pool::ResizePlan>(std::move(made));
  return TaskInstance::make(pool::task_count(*plan), static_cast<size_t>(pool::scratch_bytes(*plan)),
                            [plan, x = Source::of(p, p.anchor().in(0), c.constants)](int64_t task, const Args& args) {
                              pool::run_task(*plan, {x.f32(args), static_cast<float*>(args.out[0])}, task,
                                             args.scratch);
                            });
}
}  // namespace

extern const Entry resize_f32_entry;
const Entry resize_f32_entry{{
    .name = "resize_f32",
    .version = 3,
    .provider = "peri",
    .takes = "nearest and linear resize of f32 in two dimensions, row-major or NHWC",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .takes_constants = true,
}};

}  // namespace peri::kernels
