// Kernel cache_write: TensorScatter, a cache with an update written along one axis; where the result shares the cache's
// memory only the update is copied.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/indexed.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels {
namespace {
constexpr int64_t kCopyBytes = 64 * 1024;  // as a task of kernels/cpu/scatter.cpp

struct Shape {
  int64_t outer = 1, per_batch = 1, extent = 0, length = 0, inner = 1, bytes = 0;  // inner: in bytes
  bool circular = false;
};

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "tensor_scatter") return refused("not a tensor_scatter");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  const DType t = n.out()->type.dtype;
  if (t == DType::kString || dtype_bits(t) % 8 != 0) return refused("takes types of whole bytes only");
  const std::vector<int64_t> d = dims_of(*n.in(0)), u = dims_of(*n.in(1));
  const int64_t rank = static_cast<int64_t>(d.size()), said = n.i("axis", -2), axis = said < 0 ? said + rank : said;
  if (axis < 1 || axis >= rank) return refused("a bad axis");
  Shape s;
  s.inner = dtype_bits(t) / 8;
  for (int64_t k = 0; k < rank; ++k)
    if (k != axis) (k < axis ? s.outer : s.inner) *= d[static_cast<size_t>(k)];
  s.extent = d[static_cast<size_t>(axis)];
  s.length = u[static_cast<size_t>(axis)];
  s.bytes = s.outer * s.extent * s.inner;
  if (s.bytes == 0 || s.length == 0) return refused("an empty tensor");
  s.per_batch = s.outer / d[0];
  s.circular = n.s("mode", "linear") == "circular";
  return s;
}

int taken(const Problem& p) {
  const ir::Value* cache = p.anchor().in(0);
  const int k = input_index(*p.graph, cache);
  return k >= 0 && !p.constant[static_cast<size_t>(k)] && cache->users.size() == 1 ? k : -1;
}

bool write(const Shape& s, const std::byte* update, const int64_t* first, std::byte* y) {
  bool good = true;
  for (int64_t row = 0; row < s.outer; ++row) {
    const int64_t begin = first ? first[row / s.per_batch] : 0;
    if (begin < 0 || (!s.circular && begin > s.extent - s.length)) {
      good = false;
      continue;
    }
    const int64_t at = begin % s.extent, straight = std::min(s.length, s.extent - at);
    std::byte* const to = y + row * s.extent * s.inner;
    const std::byte* const from = update + row * s.length * s.inner;
    std::memcpy(to + at * s.inner, from, static_cast<size_t>(straight * s.inner));
    std::memcpy(to, from + straight * s.inner, static_cast<size_t>((s.length - straight) * s.inner));
  }
  return good;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  Offer o = row_major_offer(p, target);
  o.in_place = {taken(p)};
  return std::vector<Offer>{std::move(o)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  const ir::Node& n = p.anchor();
  const Source cache = Source::of(p, n.in(0), c.constants), update = Source::of(p, n.in(1), c.constants),
               first = Source::of(p, n.in(2), c.constants);
  if (!cache.known() || !update.known()) return refused("reads a value made inside the region");
  const auto copy = [=](int64_t task, const Args& args) {
    const int64_t begin = task * kCopyBytes, count = std::min(s.bytes - begin, kCopyBytes);
    const auto* from = static_cast<const std::byte*>(cache.data(args));
    auto* to = static_cast<std::byte*>(args.out[0]);
    if (from != to) std::memcpy(to + begin, from + begin, static_cast<size_t>(count));
    return true;
  };
  const auto put = [=](int64_t, const Args& args) {
    return write(s, static_cast<const std::byte*>(update.data(args)), static_cast<const int64_t*>(first.data(args)),
                 static_cast<std::byte*>(args.out[0]));
  };
  return IndexedInstance::make({{(s.bytes + kCopyBytes - 1) / kCopyBytes, copy}, {1, put}},
                               "each write index where the update fits the axis", taken(p));
}
}  // namespace

extern const Entry cache_write_entry;
const Entry cache_write_entry{{
    .name = "cache_write",
    .version = 1,
    .provider = "peri",
    .takes = "tensor_scatter of any type of whole bytes",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input p: f32[2,3,9,5]; input x: f32[2,3,2,5]; input i: i64[2]; y = tensor_scatter(p, x, i); "
                "output y }",
                "graph { input p: i8[2,7,5]; input x: i8[2,3,5]; const i: i64[2] = [6, 2]; y = tensor_scatter(p, x, i) "
                "{mode=\"circular\"}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
