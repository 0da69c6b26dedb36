// Kernel max_unpool: elements at the places that indices name in a larger image of zeros, of any 32-bit type.
#include <algorithm>

#include "kernels/cpu/indexed.hpp"

namespace peri::kernels {
namespace {
// Measured: benchmarks/results/2026-11-23_constants_rest.md.
constexpr int64_t kPlaces = 1 << 18, kMaxTasks = 2;  // of the result, a task; each task reads all indices

struct Shape {
  int64_t count = 0, places = 0;
};

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "max_unpool") return refused("not a max_unpool");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  if (n.in(2)) return refused("an output_shape");
  if (dtype_size(n.out()->type.dtype) != 4) return refused("takes 32-bit types only");
  Shape s{1, 1};
  for (const int64_t d : dims_of(*n.in(0))) s.count *= d;
  for (const int64_t d : dims_of(*n.out())) s.places *= d;
  if (s.count == 0 || s.places == 0) return refused("an empty tensor");
  return s;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

// Zeros from `begin` to `end`, and what goes there. The first task finds what goes nowhere.
bool put(const Shape& s, const uint32_t* x, const int64_t* to, uint32_t* y, int64_t begin, int64_t end) {
  std::fill(y + begin, y + end, 0U);
  const uint64_t room = static_cast<uint64_t>(end - begin);
  uint32_t elsewhere = 0;
  bool good = true;
  for (int64_t k = 0; k < s.count; ++k) {
    const uint64_t at = static_cast<uint64_t>(to[k]) - static_cast<uint64_t>(begin);
    uint32_t* const place = at < room ? y + to[k] : &elsewhere;  // no branch: indices may lie in no order
    *place = x[k];
    good &= static_cast<uint64_t>(to[k]) < static_cast<uint64_t>(s.places);
  }
  return good;
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  const Source x = Source::of(p, p.anchor().in(0), c.constants), to = Source::of(p, p.anchor().in(1), c.constants);
  const int64_t tasks = std::clamp<int64_t>(s.places / kPlaces, 1, kMaxTasks);
  const auto run = [=](int64_t task, const Args& args) {
    return put(s, static_cast<const uint32_t*>(x.data(args)), static_cast<const int64_t*>(to.data(args)),
               static_cast<uint32_t*>(args.out[0]), s.places * task / tasks, s.places * (task + 1) / tasks);
  };
  return IndexedInstance::make({{tasks, run}}, "each index in the range of the unpooled image");
}
}  // namespace

extern const Entry max_unpool_entry;
const Entry max_unpool_entry{{
    .name = "max_unpool",
    .version = 1,
    .provider = "peri",
    .takes = "max_unpool of 32-bit types without an output_shape",
    .offer = offer,
    .instantiate = instantiate,
    .samples =
        {"graph { input x: f32[2,3,5,7]; input i: i64[2,3,5,7]; y = max_unpool(x, i) {kernel_shape=[2,2], "
         "strides=[2,2]}; output y }",
         "graph { input x: f32[1,2,9]; input i: i64[1,2,9]; y = max_unpool(x, i) {kernel_shape=[3], strides=[2], "
         "pads=[1,0]}; output y }",
         "graph { input x: f32[2,1,3,4,2]; input i: i64[2,1,3,4,2]; y = max_unpool(x, i) {kernel_shape=[2,2,2], "
         "strides=[2,2,2]}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
