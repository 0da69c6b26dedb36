// Kernel max_unpool: elements placed at their indices in a larger image of zeros, for any 32-bit type.
#include <algorithm>
#include <atomic>

#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {
// Measured: benchmarks/results/2026-11-23_constants_tasks.md.
constexpr int64_t kPlaces = 1 << 15;  // of the result, a slice: as a task of block code

struct Shape {
  int64_t count = 0, places = 0;
  int64_t slices = 1;  // whole planes each: a divisor of their number
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
  const std::vector<int64_t> d = dims_of(*n.in(0));
  const int64_t planes = d.size() > 2 ? d[0] * d[1] : 1;
  s.slices = std::clamp<int64_t>(s.places / kPlaces, 1, planes);
  while (planes % s.slices != 0) --s.slices;
  return s;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

// Tasks with a slice of both sides each write its zeros, and then, while it is in their cache, its elements, up to the
// first whose index is outside the slice. If there was one, a single task stores all elements again, so that of two for
// one position the later remains.
class Unpool final : public Instance {
 public:
  Unpool(const Shape& s, Source x, Source to)
      : Instance({sizeof(std::atomic<uint32_t>), 0, {1, s.slices, 1}, {}}),
        s_(s),
        x_(std::move(x)),
        to_(std::move(to)) {}
  void run_task(int phase, int64_t task, const Args& args) const override {
    auto& found = *reinterpret_cast<std::atomic<uint32_t>*>(args.workspace);
    if (phase == 0) return found.store(0);
    if (phase == 2 && found.load() == 0) return;
    const int64_t each = s_.count / s_.slices, room = s_.places / s_.slices, first = task * each;
    const auto* const to = static_cast<const int64_t*>(to_.data(args));
    const auto* const x = static_cast<const uint32_t*>(x_.data(args));
    auto* const y = static_cast<uint32_t*>(args.out[0]);
    if (phase == 2) {
      if (!put_within(x, to, s_.count, y, 0, s_.places)) found.fetch_or(kOutside);
      return;
    }
    std::fill_n(y + task * room, room, 0U);
    if (!put_within(x + first, to + first, each, y, task * room, room)) found.fetch_or(kElsewhere);
  }
  Status finish(const Args& args) const override {
    if ((reinterpret_cast<std::atomic<uint32_t>*>(args.workspace)->load() & kOutside) == 0) return Ok{};
    return invalid("an index is out of range")
        .expecting("each index in the range of the unpooled image")
        .advise("check the input that holds the indices");
  }

 private:
  static constexpr uint32_t kOutside = 1, kElsewhere = 2;
  // Whether all places lie among the `room` from `begin` on; ends at the first that does not.
  static bool put_within(const uint32_t* x, const int64_t* to, int64_t n, uint32_t* y, int64_t begin, int64_t room) {
    for (int64_t k = 0; k < n; ++k) {
      if (static_cast<uint64_t>(to[k]) - static_cast<uint64_t>(begin) >= static_cast<uint64_t>(room)) return false;
      y[to[k]] = x[k];
    }
    return true;
  }
  Shape s_;
  Source x_, to_;
};

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  Source x = Source::of(p, p.anchor().in(0), c.constants), to = Source::of(p, p.anchor().in(1), c.constants);
  if (!x.known() || !to.known()) return refused("reads a value made inside the region");
  return std::unique_ptr<Instance>(std::make_unique<Unpool>(s, std::move(x), std::move(to)));
}
}  // namespace

extern const Entry max_unpool_entry;
const Entry max_unpool_entry{{
    .name = "max_unpool",
    .version = 2,
    .provider = "peri",
    .takes = "max_unpool of 32-bit types without an output_shape",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: f32[2,3,5,7]; input i: i64[2,3,5,7]; y = max_unpool(x, i) {kernel_shape=[2,2], "
         "strides=[2,2]}; output y }",
         "graph { input x: f32[1,2,9]; input i: i64[1,2,9]; y = max_unpool(x, i) {kernel_shape=[3], strides=[2], "
         "pads=[1,0]}; output y }",
         "graph { input x: f32[2,1,3,4,2]; input i: i64[2,1,3,4,2]; y = max_unpool(x, i) {kernel_shape=[2,2,2], "
         "strides=[2,2,2]}; output y }",
         "graph { input x: f32[1,8,64,64]; input i: i64[1,8,64,64]; y = max_unpool(x, i) {kernel_shape=[2,2], "
         "strides=[2,2]}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
