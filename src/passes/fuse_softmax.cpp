// Pass fuse_softmax: exp(x - max) over its sum becomes one softmax.
#include "passes/entry.hpp"
#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {

// x and the axis of a reduction over one axis, kept as a one.
struct Reduced {
  ir::Value* x;
  int64_t axis;
};
std::optional<Reduced> reduced(const ir::Value* v, std::string_view op) {
  const ir::Node* n = made_by(v, op);
  if (!n || n->i("keepdims", 1) == 0 || !n->in(1)) return std::nullopt;
  const auto axes = numbers_of(n->in(1));
  if (!axes || axes->size() != 1) return std::nullopt;
  return Reduced{n->in(0), wrap_axis((*axes)[0], n->in(0)->type.rank())};
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op != "div") return false;
  const ir::Node* e = made_by(n->in(0), "exp");
  const auto sum = reduced(n->in(1), "reduce_sum");
  if (!e || !sum || sum->x != n->in(0)) return false;
  const ir::Node* d = made_by(e->in(0), "sub");
  const auto top = d ? reduced(d->in(1), "reduce_max") : std::nullopt;
  if (!top || top->x != d->in(0) || top->axis != sum->axis) return false;
  w.standing_for({d->in(1)->producer, d, e, n->in(1)->producer, n});
  PERI_ASSIGN(ir::Value * y, w.make("softmax", {top->x}, {{"axis", sum->axis}}, n->out()));
  w.replace(n->out(), y);
  return true;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "fuse_softmax", rule); }

}  // namespace

extern const Entry fuse_softmax_entry;
const Entry fuse_softmax_entry{{
    .name = "fuse_softmax",
    .contract = "Every exp(x - max(x)) / sum(exp(x - max(x))) along one axis is one softmax. It stands before "
                "fuse_attention, which looks "
                "for softmax. The form without the maximum overflows earlier than softmax and stays.",
    .follows = {"fold_constants", "eliminate_duplicates"},
    .run = run,
    .examples = {{"along an axis",
                  "graph { input x: f32[2,3,4]; const a: i64[1] = [1]; m = reduce_max(x, a); d = sub(x, m); e = "
                  "exp(d); s = reduce_sum(e, a); "
                  "y = div(e, s); output y }",
                  "graph { input x: f32[2,3,4]; y = softmax(x) {axis=1}; output y }"},
                 {"along different axes it stays",
                  "graph { input x: f32[2,3]; const a: i64[1] = [1]; const b: i64[1] = [0]; m = reduce_max(x, b); d = "
                  "sub(x, m); e = exp(d); "
                  "s = reduce_sum(e, a); y = div(e, s); output y }",
                  "graph { input x: f32[2,3]; const a: i64[1] = [1]; const b: i64[1] = [0]; m = reduce_max(x, b); d = "
                  "sub(x, m); e = exp(d); "
                  "s = reduce_sum(e, a); y = div(e, s); output y }"}},
}};

}  // namespace peri::passes
