// Kernel "tensor_scatter": a cache copied with an update written along one axis, each batch from an index of its own.
// Elements of any byte-sized type; an index out of range ends the run with an error.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/indexed.hpp"
#include "ops/shape/broadcast.hpp"

namespace peri::kernels {

namespace {
struct Cut {
  int64_t rows = 1, per_batch = 1, extent = 0, length = 0, inner = 1;  // inner: bytes of one place
  bool circular = false, indexed = false, wide = true;
  Source cache, update, first;
};

Result<Cut> read(const Problem& p, const Constants& constants) {
  const ir::Node& n = p.anchor();
  if (n.op != "tensor_scatter") return refused("no tensor_scatter");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  const int bytes = dtype_size(n.out()->type.dtype);
  if (bytes == 0) return refused("elements of %s", dtype_name(n.out()->type.dtype).data());
  const std::vector<int64_t> cache = dims_of(*n.in(0)), update = dims_of(*n.in(1));
  PERI_ASSIGN(const int64_t axis, ops::normalize_axis(n.i("axis", -2), cache.size()));
  Cut c;
  for (int64_t k = 0; k < axis; ++k) c.rows *= cache[static_cast<size_t>(k)];
  for (size_t k = static_cast<size_t>(axis) + 1; k < cache.size(); ++k) c.inner *= cache[k];
  c.extent = cache[static_cast<size_t>(axis)];
  c.length = update[static_cast<size_t>(axis)];
  if (axis == 0 || c.rows * c.inner * c.extent * c.length == 0) return refused("an empty cache or update");
  c.per_batch = c.rows / cache[0];
  c.inner *= bytes;
  c.circular = n.s("mode", "linear") == "circular";
  c.indexed = n.in(2) != nullptr;
  c.cache = Source::of(p, n.in(0), constants);
  c.update = Source::of(p, n.in(1), constants);
  if (c.indexed) {
    c.first = Source::of(p, n.in(2), constants);
    c.wide = n.in(2)->type.dtype == DType::kI64;
  }
  if (!c.cache.known() || !c.update.known() || (c.indexed && !c.first.known()))
    return refused("reads a value made inside the region");
  return c;
}

bool run_row(const Cut& c, int64_t row, const Args& args) {
  const int64_t begin = c.indexed ? index_at(c.first.data(args), c.wide, row / c.per_batch) : 0;
  if (begin < 0 || (!c.circular && begin > c.extent - c.length)) return false;
  const auto size = [](int64_t n) { return static_cast<size_t>(n); };
  const auto* old = static_cast<const std::byte*>(c.cache.data(args)) + row * c.extent * c.inner;
  const auto* from = static_cast<const std::byte*>(c.update.data(args)) + row * c.length * c.inner;
  auto* to = static_cast<std::byte*>(args.out[0]) + row * c.extent * c.inner;
  std::memcpy(to, old, size(c.extent * c.inner));
  const int64_t at = begin % c.extent, first = std::min(c.length, c.extent - at);
  std::memcpy(to + at * c.inner, from, size(first * c.inner));
  for (int64_t k = first; k < c.length; ++k)  // round the end of a ring
    std::memcpy(to + (at + k) % c.extent * c.inner, from + k * c.inner, size(c.inner));
  return true;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p, {}));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Cut cut, read(p, c.constants));
  return IndexedInstance::make({{cut.rows, [cut](int64_t row, const Args& args) { return run_row(cut, row, args); }}},
                               format("0 to %lld", static_cast<long long>(cut.extent - cut.length)));
}
}  // namespace

extern const Entry tensor_scatter_entry;
const Entry tensor_scatter_entry{{
    .name = "tensor_scatter",
    .version = 1,
    .provider = "peri",
    .takes = "tensor_scatter, elements of any byte-sized type",
    .offer = offer,
    .instantiate = instantiate,
    .samples = {"graph { input p: f32[2,2,6,5]; input x: f32[2,2,3,5]; const w: i64[2] = [4, 1]; y = "
                "tensor_scatter(p, x, w) {mode=\"circular\"}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
