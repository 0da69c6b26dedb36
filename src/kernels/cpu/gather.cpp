// Kernel gather: rows of any byte-sized type along one axis by i32 or i64 indices; an index out of range is an error of
// the run.
#include <atomic>

#include "kernels/cpu/move/gather.hpp"
#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {
namespace move = cpu::move;

Result<move::GatherShape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "gather") return refused("not a gather");
  if (p.graph->nodes.back() != &n) return refused("takes no epilogue");
  const int bytes = dtype_size(n.in(0)->type.dtype);
  if (bytes == 0) return refused("elements of %s", dtype_name(n.in(0)->type.dtype).data());
  const std::vector<int64_t> d = dims_of(*n.in(0));
  int64_t axis = n.i("axis");
  if (axis < 0) axis += static_cast<int64_t>(d.size());
  move::GatherShape s;
  s.row_bytes = bytes;
  for (int64_t k = 0; k < static_cast<int64_t>(d.size()); ++k) {
    const int64_t v = d[static_cast<size_t>(k)];
    if (k < axis)
      s.outer *= v;
    else if (k == axis)
      s.axis = v;
    else
      s.row_bytes *= v;
  }
  for (int64_t v : dims_of(*n.in(1))) s.indices *= v;
  s.wide = n.in(1)->type.dtype == DType::kI64;
  if (s.outer * s.row_bytes * s.indices == 0) return refused("an empty result");
  return s;
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

class GatherInstance final : public Instance {
 public:
  GatherInstance(move::GatherPlan plan, Source x, Source indices)
      : Instance({sizeof(std::atomic<int64_t>), 0, {1, move::task_count(plan)}, {}}),
        plan_(plan),
        x_(std::move(x)),
        indices_(std::move(indices)) {}
  void run_task(int phase, int64_t task, const Args& args) const override {
    auto* bad = reinterpret_cast<std::atomic<int64_t>*>(args.workspace);
    if (phase == 0) return bad->store(0);
    if (!move::run_task(plan_, x_.data(args), indices_.data(args), args.out[0], task).ok()) bad->store(1);
  }
  Status finish(const Args& args) const override {
    if (reinterpret_cast<std::atomic<int64_t>*>(args.workspace)->load() == 0) return Ok{};
    return invalid("an index of gather is out of range")
        .expecting(format("indices in [%lld, %lld]", -static_cast<long long>(plan_.shape.axis),
                          static_cast<long long>(plan_.shape.axis) - 1))
        .advise("check the input that holds the indices; indices that the model counts itself need smaller sizes");
  }

 private:
  move::GatherPlan plan_;
  Source x_, indices_;
};

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const move::GatherShape shape, read(p));
  PERI_ASSIGN(move::GatherPlan plan, move::make_plan(shape));
  Source x = Source::of(p, p.anchor().in(0), c.constants), indices = Source::of(p, p.anchor().in(1), c.constants);
  if (!x.known() || !indices.known()) return refused("reads a value made inside the region");
  return std::unique_ptr<Instance>(std::make_unique<GatherInstance>(plan, std::move(x), std::move(indices)));
}
}  // namespace

extern const Entry gather_entry;
const Entry gather_entry{{
    .name = "gather",
    .version = 1,
    .provider = "peri",
    .takes = "gather of rows along one axis, any byte-sized type",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .takes_constants = true,
}};

}  // namespace peri::kernels
