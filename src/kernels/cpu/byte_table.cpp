// Kernel byte_table: bytes mapped through a table of 256, row-major or NHWC.
#include <algorithm>

#include "kernels/cpu/integer/product.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/task_elements.hpp"
#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {

Result<int64_t> elements(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "byte_table") return refused("no table of bytes");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  int64_t count = 1;
  for (const int64_t d : dims_of(*n.in(0))) count *= d;
  return count > 0 ? Result<int64_t>(count) : Result<int64_t>(refused("an empty tensor"));
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(elements(p));
  PERI_TRY(cpu::best_isa(target));
  return any_order_offers(p, target);
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_ASSIGN(const int64_t all, elements(p));
  PERI_TRY(check_same_layout(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  using cpu::kTaskElements;
  return TaskInstance::make(
      (all + kTaskElements - 1) / kTaskElements, 0,
      [all, loops = &cpu::integer::loops_of(isa), x = Source::of(p, p.anchor().in(0), c.constants),
       table = Source::of(p, p.anchor().in(1), c.constants)](int64_t task, const Args& args) {
        const auto* const from = static_cast<const uint8_t*>(x.data(args));
        const auto* const by = static_cast<const uint8_t*>(table.data(args));
        auto* const to = static_cast<uint8_t*>(args.out[0]);
        const int64_t end = std::min(all, (task + 1) * kTaskElements);
        const int64_t begin = task * kTaskElements;
        loops->look_up(from + begin, by, to + begin, end - begin);
      });
}
}  // namespace

extern const Entry byte_table_entry;
const Entry byte_table_entry{{
    .name = "byte_table",
    .version = 2,
    .provider = "peri",
    .takes = "bytes looked up in a table, row-major or NHWC",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: u8[2,35,70,9]; const t: u8[256] = seeded(50, 1); y = byte_table(x, t); output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
