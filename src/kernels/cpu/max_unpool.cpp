// Kernel max_unpool: elements at the places that indices name in a larger image of zeros, of any 32-bit type.
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

// First indices are looked at; then elements go to their places among zeros: by tasks that have a slice of both sides
// each where no index leaves its slice, else by one task, so that of two elements for a place the later stays. Who puts
// them there writes the zeros too, which are in its cache then.
class Unpool final : public Instance {
 public:
  Unpool(const Shape& s, Source x, Source to) : s_(s), x_(std::move(x)), to_(std::move(to)) {}
  size_t workspace_bytes() const override { return sizeof(std::atomic<uint32_t>); }
  int phases() const override { return 3; }
  int64_t tasks(int phase) const override { return phase == 0 ? 1 : s_.slices; }
  void run_task(int phase, int64_t task, const Args& args) const override {
    auto& found = *reinterpret_cast<std::atomic<uint32_t>*>(args.workspace);
    const auto* const to = static_cast<const int64_t*>(to_.data(args));
    auto* const y = static_cast<uint32_t*>(args.out[0]);
    const int64_t each = s_.count / s_.slices, room = s_.places / s_.slices;
    if (phase == 0) return found.store(0);
    if (phase == 1) return static_cast<void>(found.fetch_or(look(to + task * each, each, task * room, room)));
    const uint32_t seen = found.load();
    if ((seen & kOutside) != 0 || (seen != 0 && task != 0)) return;
    const int64_t begin = task * each, end = seen != 0 ? s_.count : begin + each;
    const auto* const x = static_cast<const uint32_t*>(x_.data(args));
    std::fill_n(y + task * room, seen != 0 ? s_.places : room, 0U);
    for (int64_t k = begin; k < end; ++k) y[to[k]] = x[k];
  }
  Status finish(const Args& args) const override {
    if ((reinterpret_cast<std::atomic<uint32_t>*>(args.workspace)->load() & kOutside) == 0) return Ok{};
    return invalid("an index is out of range")
        .expecting("each index in the range of the unpooled image")
        .advise("check the input that holds the indices");
  }

 private:
  static constexpr uint32_t kOutside = 1, kElsewhere = 2;
  uint32_t look(const int64_t* to, int64_t n, int64_t begin, int64_t room) const {
    uint64_t outside = 0, elsewhere = 0;
    for (int64_t k = 0; k < n; ++k) {
      const uint64_t at = static_cast<uint64_t>(to[k]);
      outside |= at >= static_cast<uint64_t>(s_.places);
      elsewhere |= at - static_cast<uint64_t>(begin) >= static_cast<uint64_t>(room);
    }
    return (outside != 0 ? kOutside : 0) | (elsewhere != 0 ? kElsewhere : 0);
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
