// Kernel bit_copy: bit_cast, a copy of the bytes under another type.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/task_instance.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
// Measured: benchmarks/results/2026-11-23_constants_rest.md.
constexpr int64_t kTaskBytes = 128 * 1024;

Result<int64_t> bytes_of(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "bit_cast") return refused("not a bit_cast");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  if (dtype_size(n.in(0)->type.dtype) == 0 || dtype_size(n.out()->type.dtype) == 0)
    return refused("elements of less than a byte");
  int64_t bytes = dtype_size(n.out()->type.dtype);
  for (const int64_t d : dims_of(*n.out())) bytes *= d;
  if (bytes == 0) return refused("an empty tensor");
  return bytes;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(bytes_of(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const int64_t bytes, bytes_of(p));
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  if (!x.known()) return refused("reads a value made inside the region");
  return TaskInstance::make((bytes + kTaskBytes - 1) / kTaskBytes, 0, [bytes, x](int64_t task, const Args& args) {
    const int64_t at = task * kTaskBytes;
    std::memcpy(static_cast<std::byte*>(args.out[0]) + at, static_cast<const std::byte*>(x.data(args)) + at,
                static_cast<size_t>(std::min(kTaskBytes, bytes - at)));
  });
}
}  // namespace

extern const Entry bit_copy_entry;
const Entry bit_copy_entry{{
    .name = "bit_copy",
    .version = 1,
    .provider = "peri",
    .takes = "bit_cast between types of whole bytes",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: f32[300,190]; y = bit_cast(x) {to=13}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
