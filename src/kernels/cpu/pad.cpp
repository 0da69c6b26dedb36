// Kernel pad: padding and cropping at the ends of axes in every mode, for elements of any byte-sized type.
#include <cstring>

#include "kernels/cpu/move/gather.hpp"
#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {
namespace move = cpu::move;

Result<move::PadMode> mode_of(const std::string& mode) {
  if (mode == "constant") return move::PadMode::kConstant;
  if (mode == "edge") return move::PadMode::kEdge;
  if (mode == "reflect") return move::PadMode::kReflect;
  if (mode == "wrap") return move::PadMode::kWrap;
  return refused("mode %s", mode.c_str());
}

Status read_pads(const ir::Node& n, move::PadShape* s) {
  const ops::InferContext context{n, {}, {}, nullptr};
  PERI_ASSIGN(s->mode, mode_of(n.s("mode", "constant")));
  PERI_ASSIGN(const std::vector<int64_t> pads, context.constants(1, "pads"));
  std::vector<int64_t> axes;
  for (size_t k = 0; k < s->dims.size(); ++k) axes.push_back(static_cast<int64_t>(k));
  if (n.in(3)) {
    PERI_ASSIGN(axes, context.constants(3, "axes"));
  }
  if (pads.size() != 2 * axes.size()) return refused("pads and axes differ in number");
  for (size_t k = 0; k < axes.size(); ++k) {
    const int64_t axis = axes[k] < 0 ? axes[k] + static_cast<int64_t>(s->dims.size()) : axes[k];
    if (axis < 0 || axis >= static_cast<int64_t>(s->dims.size())) return refused("a bad axis");
    s->before[static_cast<size_t>(axis)] = pads[k];
    s->after[static_cast<size_t>(axis)] = pads[k + axes.size()];
    // What is cut is not repeated.
    if (s->mode != move::PadMode::kConstant && (pads[k] < 0 || pads[k + axes.size()] < 0))
      return refused("an axis that is cut and padded by its own elements");
  }
  if (!n.in(2)) return Ok{};
  if (!n.in(2)->constant) return refused("the value is known only when it runs");
  std::memcpy(&s->value, n.in(2)->constant->data(), static_cast<size_t>(s->element_bytes));
  return Ok{};
}

// Of the axes as they lie in memory; none: as they are.
std::vector<int64_t> in_order(const std::vector<int64_t>& axes, const std::vector<uint8_t>& order) {
  if (order.empty()) return axes;
  std::vector<int64_t> out;
  for (const uint8_t axis : order) out.push_back(axes[axis]);
  return out;
}

// An axis of merged ones is no longer: a plan lists its elements, and a task has whole rows.
constexpr int64_t kMaxMerged = 4096;

// The same with fewer axes: neighbours that are not padded become one, and where the value outside is the same
// everywhere an axis that is not padded joins the one before it, so that rows are long.
move::PadShape merged(const move::PadShape& s) {
  move::PadShape out = s;
  out.dims.clear();
  out.before.clear();
  out.after.clear();
  for (size_t k = 0; k < s.dims.size(); ++k) {
    const bool padded = s.before[k] != 0 || s.after[k] != 0;
    const bool same =
        !out.dims.empty() && !padded && s.dims[k] > 0 &&
        out.dims.back() + std::abs(out.before.back()) + std::abs(out.after.back()) <= kMaxMerged / s.dims[k] &&
        (s.mode == move::PadMode::kConstant || (out.before.back() == 0 && out.after.back() == 0));
    if (same) {
      for (auto* of : {&out.dims, &out.before, &out.after}) of->back() *= s.dims[k];
    } else {
      out.dims.push_back(s.dims[k]);
      out.before.push_back(s.before[k]);
      out.after.push_back(s.after[k]);
    }
  }
  return out;
}

Result<move::PadPlan> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "pad" && n.op != "center_crop_pad") return refused("neither pads nor crops");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  move::PadShape s;
  s.element_bytes = dtype_size(n.in(0)->type.dtype);
  if (s.element_bytes == 0 || s.element_bytes > 8)
    return refused("elements of %s", dtype_name(n.in(0)->type.dtype).data());
  s.dims = dims_of(*n.in(0));
  s.before.assign(s.dims.size(), 0);
  s.after.assign(s.dims.size(), 0);
  std::vector<int64_t> y = dims_of(*n.out());
  if (n.op == "pad") {
    PERI_TRY(read_pads(n, &s));
  } else {
    for (size_t k = 0; k < y.size(); ++k) {
      const int64_t more = y[k] - s.dims[k];
      s.before[k] = more < 0 ? -(-more / 2) : more / 2;
      s.after[k] = more - s.before[k];
    }
  }
  const std::vector<uint8_t>& order = n.in(0)->type.layout.order;
  s.dims = in_order(s.dims, order);
  s.before = in_order(s.before, order);
  s.after = in_order(s.after, order);
  y = in_order(y, order);
  for (size_t k = 0; k < y.size(); ++k)
    if (y[k] != s.dims[k] + s.before[k] + s.after[k]) return refused("its result has another shape");
  PERI_ASSIGN(move::PadPlan plan, move::make_plan(merged(s)));
  if (plan.units == 0) return refused("an empty result");
  return plan;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return any_order_offers(p, target);
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_same_layout(p));
  PERI_ASSIGN(move::PadPlan made, read(p));
  const auto plan = std::make_shared<const move::PadPlan>(std::move(made));
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  if (!x.known()) return refused("reads a value made inside the region");
  return TaskInstance::make(move::task_count(*plan), 0, [plan, x](int64_t task, const Args& args) {
    move::run_task(*plan, x.data(args), args.out[0], task);
  });
}
}  // namespace

extern const Entry pad_entry;
const Entry pad_entry{{
    .name = "pad",
    .version = 1,
    .provider = "peri",
    .takes = "padding in every mode and cropping, elements of any byte-sized type",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: f32[3,40,33]; const p: i64[6] = [0, 2, 7, 1, 0, 9]; y = pad(x, p) {mode=\"reflect\"}; "
         "output y }",
         "graph { input x: f32[2,5,9,11]; const p: i64[8] = [0, 0, 0, 0, 0, 3, 0, 0]; y = pad(x, p); output y }",
         "graph { input x: f32[1,6,9,5]; const p: i64[8] = [0, 0, 2, 1, 0, 0, 1, 3]; y = pad(x, p) {mode=\"reflect\"}; "
         "output y }",
         "graph { input x: u8[3,5,7]; const p: i64[6] = [1, -1, 0, 0, 2, -3]; const v: u8[] = [9]; y = pad(x, p, "
         "v); output y }",
         "graph { input x: i64[2,300,64]; const p: i64[6] = [0, 5, 0, 0, 6, 0]; y = pad(x, p) {mode=\"wrap\"}; "
         "output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
