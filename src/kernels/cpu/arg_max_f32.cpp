// Kernel arg_max_f32: the index of the extreme element along an axis.
#include "kernels/cpu/rows/extreme.hpp"

namespace peri::kernels {
namespace {
namespace extreme = cpu::extreme;

struct Shape {
  extreme::Lines lines;
  bool largest = true, last = false;
};

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "arg_max" && n.op != "arg_min") return refused("not an arg_max or arg_min");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  if (n.in(0)->type.dtype != DType::kF32) return refused("takes f32 only");
  Shape s;
  PERI_ASSIGN(s.lines, extreme::read_lines(n, 0));
  s.largest = n.op == "arg_max";
  s.last = n.i("select_last_index", 0) != 0;
  return s;
}

template <bool Largest, bool Last>
TaskInstance::Run run_of(const extreme::Lines& s, Source x) {
  return [s, x](int64_t task, const Args& args) {
    extreme::scan<Largest, Last>(s, task, x.f32(args), static_cast<int64_t*>(args.out[0]));
  };
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  const auto make = s.largest ? (s.last ? run_of<true, true> : run_of<true, false>)
                              : (s.last ? run_of<false, true> : run_of<false, false>);
  return TaskInstance::make(s.lines.tasks(), 0, make(s.lines, x));
}
}  // namespace

extern const Entry arg_max_f32_entry;
const Entry arg_max_f32_entry{{
    .name = "arg_max_f32",
    .version = 1,
    .provider = "peri",
    .takes = "arg_max and arg_min of f32 along one axis",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .takes_constants = true,
}};

}  // namespace peri::kernels
