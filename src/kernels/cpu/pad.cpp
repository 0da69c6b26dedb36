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
  const std::vector<int64_t> y = dims_of(*n.out());
  if (n.op == "pad") {
    PERI_TRY(read_pads(n, &s));
  } else {
    for (size_t k = 0; k < y.size(); ++k) {
      const int64_t more = y[k] - s.dims[k];
      s.before[k] = more < 0 ? -(-more / 2) : more / 2;
      s.after[k] = more - s.before[k];
    }
  }
  PERI_ASSIGN(move::PadPlan plan, move::make_plan(s));
  if (plan.units == 0) return refused("an empty result");
  if (plan.out != y && !(y.empty() && plan.out.size() == 1)) return refused("its result has another shape");
  return plan;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
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
         "graph { input x: u8[3,5,7]; const p: i64[6] = [1, -1, 0, 0, 2, -3]; const v: u8[] = [9]; y = pad(x, p, "
         "v); output y }",
         "graph { input x: i64[2,300,64]; const p: i64[6] = [0, 5, 0, 0, 6, 0]; y = pad(x, p) {mode=\"wrap\"}; "
         "output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
