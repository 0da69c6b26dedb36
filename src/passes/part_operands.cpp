// Pass part_operands: a sum, mean, max or min of many values becomes several, of as many as a kernel reads.
#include <string>

#include "passes/entry.hpp"
#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {
constexpr size_t kMaxOperands = 64;  // operands: kernels::block::kMaxArguments

bool parts(const ir::Node& n) {
  for (const char* op : {"sum", "mean", "max", "min"})
    if (n.op == op) return n.inputs.size() > kMaxOperands;  // By name: what may be done part by part
  return false;
}

// From left to right: each takes the result of the one before, so that a sum rounds as one of all does.
Result<ir::Value*> in_a_row(Rewriter& w, const ir::Node& n, std::string_view op, std::span<ir::Value* const> all) {
  std::vector<ir::Value*> part;
  for (ir::Value* v : all) {
    if (part.size() == kMaxOperands) {
      PERI_ASSIGN(ir::Value * so_far, w.make(op, std::move(part), n.attrs, n.out()));
      part = {so_far};
    }
    part.push_back(v);
  }
  return w.make(op, std::move(part), n.attrs, n.out());
}

// Means of parts, each by its share: no sum is larger than the values, whatever their type holds.
Result<ir::Value*> by_shares(Rewriter& w, const ir::Node& n) {
  std::vector<ir::Value*> means;
  const size_t all = n.inputs.size(), count = (all + kMaxOperands - 1) / kMaxOperands;
  for (size_t k = 0; k < count; ++k) {
    const size_t begin = k * all / count, end = (k + 1) * all / count;
    const std::vector<ir::Value*> part(n.inputs.begin() + static_cast<std::ptrdiff_t>(begin),
                                       n.inputs.begin() + static_cast<std::ptrdiff_t>(end));
    PERI_ASSIGN(ir::Value * mean, w.make("mean", part, n.attrs, n.out()));
    ir::Value* share = w.scalar(n.out()->type.dtype, static_cast<double>(end - begin) / static_cast<double>(all),
                                n.out()->name + "_share");
    PERI_ASSIGN(mean, w.make("mul", {mean, share}, {}, n.out()));
    means.push_back(mean);
  }
  return in_a_row(w, n, "sum", means);
}

Result<bool> rule(Rewriter& w, ir::Node* n) {
  if (!parts(*n)) return false;
  w.standing_for({n});
  PERI_ASSIGN(ir::Value * y, n->op == "mean" ? by_shares(w, *n) : in_a_row(w, *n, n->op, n->inputs));
  w.replace(n->out(), y);
  return true;
}

Result<int64_t> run(ir::Graph& graph) { return rewrite_all(graph, "part_operands", rule); }

// One more than a kernel reads.
std::string example(bool after) {
  std::string inputs, first, all;
  for (size_t k = 0; k <= kMaxOperands; ++k) {
    const std::string name = "x" + std::to_string(k);
    inputs += "input " + name + ": f32[n]; ";
    (k < kMaxOperands ? first : all) += (k == 0 || k == kMaxOperands ? "" : ", ") + name;
  }
  if (!after) return "graph { " + inputs + "y = sum(" + first + ", " + all + "); output y }";
  return "graph { " + inputs + "t = sum(" + first + "); y = sum(t, " + all + "); output y }";
}
const std::string kBefore = example(false), kAfter = example(true);

}  // namespace

extern const Entry part_operands_entry;
const Entry part_operands_entry{{
    .name = "part_operands",
    .contract = "No sum, mean, max or min of more operands than a kernel reads is left: it is several, one behind the "
                "other; means of parts are added by their shares. It stands behind the passes that make or join them.",
    .follows = {"fold_constants", "simplify"},
    .run = run,
    .examples = {{"one operand more", kBefore, kAfter}},
}};

}  // namespace peri::passes
