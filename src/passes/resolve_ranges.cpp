// Pass resolve_ranges: index arithmetic over range(n) with a known result is replaced by it.
#include <algorithm>

#include "passes/entry.hpp"
#include "passes/rewrite/ranges.hpp"

namespace peri::passes {
namespace {

// Axes with more than one element: {first, last + 1}; none if there is no such axis.
std::pair<size_t, size_t> extent_of(const ir::Value* v) {
  const Shape& s = *v->type.shape;
  size_t first = s.size(), last = 0;
  for (size_t k = 0; k < s.size(); ++k)
    if (!s[k].is_const(1)) {
      first = std::min(first, k);
      last = k + 1;
    }
  return {first, last};
}

// n if v holds 0, 1, ... n-1 in row-major order: a range, or range(a) * b + range(b) with the axes of a before those of
// b.
std::optional<Dim> counted_rows(ir::Value* v) {
  if (const auto n = counted(v)) return n;
  const ir::Node* sum = made_by(v, "add");
  if (!sum) return std::nullopt;
  for (size_t k : {0, 1}) {
    const ir::Node* scaled = made_by(sum->in(k), "mul");
    ir::Value* inner = sum->in(1 - k);
    const auto b = counted(inner);
    if (!scaled || !b || inner->type.rank() != v->type.rank()) continue;
    for (size_t j : {0, 1}) {
      ir::Value* outer = scaled->in(j);
      const auto a = counted(outer), step = one_size(scaled->in(1 - j));
      if (!a || !step || !(*step == *b) || outer->type.rank() != v->type.rank()) continue;
      if (extent_of(outer).second <= extent_of(inner).first) return *a * *b;
    }
  }
  return std::nullopt;
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (n->op == "gather" && wrap_axis(n->i("axis", 0), n->in(0)->type.rank()) == 0) {
    const auto rows = counted_rows(n->in(1));
    if (!rows || !(*rows == (*n->in(0)->type.shape)[0])) return false;
    PERI_ASSIGN(ir::Value * y, w.reshape(n->in(0), *n->out()->type.shape, n->out()));
    w.replace(n->out(), y);
    return true;
  }
  if (n->op == "greater_or_equal" && same_shape(n->in(0), n->out()) && counted(n->in(0)) &&
      w.sized_by_inputs(*n->out()->type.shape)) {
    const auto bound = scalar_of(n->in(1));
    if (!bound || *bound > 0) return false;
    auto yes = Tensor::zeros(DType::kBool, std::vector<int64_t>(n->out()->type.rank(), 1));
    if (!yes.ok()) return false;
    yes->set_i64(0, 1);
    ir::Attrs attrs;
    attrs["value"] = std::vector<Dim>(*n->out()->type.shape);
    PERI_ASSIGN(ir::Value * dims, w.make("dims_constant", {}, std::move(attrs), nullptr));
    PERI_ASSIGN(ir::Value * y, w.make("expand", {w.graph().add_constant("true", *std::move(yes)), dims}, {}, n->out()));
    w.replace(n->out(), y);
    return true;
  }
  return false;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "resolve_ranges", rule, 2); }

}  // namespace

extern const Entry resolve_ranges_entry;
const Entry resolve_ranges_entry{{
    .name = "resolve_ranges",
    .contract = "A gather of all rows in their order, by range(n) or by range(a) * b + range(b) as exporters write "
                "masks, is a reshape; "
                "a range that counts from 0 is known to be at least 0. It stands after folding, which finds the sizes.",
    .follows = {"fold_constants"},
    .run = run,
    .examples = {{"a mask by flat index",
                  "graph { input m: bool[b,s]; const z: i64[] = [0]; const o: i64[] = [1]; nb = dims_constant() "
                  "{scalar=1, value=dims[b]}; ns = "
                  "dims_constant() {scalar=1, value=dims[s]}; n = dims_constant() {value=dims[s]}; const u: i64[3] = "
                  "[1, 2, 3]; const v: "
                  "i64[3] = [0, 1, 2]; f = flatten(m) {axis=2}; rb = range(z, nb, o); rs = range(z, ns, o); ib = "
                  "unsqueeze(rb, u); is = "
                  "unsqueeze(rs, v); k = mul(ib, n); i = add(is, k); y = gather(f, i); output y }",
                  "graph { input m: bool[b,s]; f = flatten(m) {axis=2}; d = dims_constant() {value=dims[b,1,1,s,1]}; y "
                  "= reshape(f, d); output y "
                  "}"},
                 {"a bound that always holds",
                  "graph { input x: bool[s]; const z: i64[] = [0]; const o: i64[] = [1]; ns = dims_constant() "
                  "{scalar=1, value=dims[s]}; rs = "
                  "range(z, ns, o); g = greater_or_equal(rs, z); y = and(x, g); output y }",
                  "graph { input x: bool[s]; const t: bool[1] = [1]; d = dims_constant() {value=dims[s]}; g = "
                  "expand(t, d); y = and(x, g); output "
                  "y }"}},
}};

}  // namespace peri::passes
