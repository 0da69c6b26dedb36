// Narrow values spread from products along element-wise ops and moves; coordinates, sizes and all else that is computed
// without weights keep their types.
#include "passes/rewrite/narrow_values.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "passes/rewrite/narrow.hpp"

namespace peri::passes {
namespace {

bool has_weight_port(const ir::Node& n) {
  const ops::OpDef* op = ops::find(n.op);
  return op && std::any_of(op->inputs.begin(), op->inputs.end(),
                           [](const ops::Port& p) { return p.role == ops::Role::kWeight; });
}

// Constants of up to so many elements are no table.
constexpr int64_t kSmall = 64;

class Narrower {
 public:
  Narrower(ir::Graph& graph, DType type)
      : graph_(graph), type_(type), w_(graph, "set_precision"), fresh_(ops::first_fresh(graph)) {}

  Result<int64_t> run() {
    std::vector<DType> interface;
    for (const ir::Value* v : graph_.outputs) interface.push_back(v->type.dtype);
    find_wide();
    for (ir::Node* n : w_.nodes()) {
      w_.standing_for({n});
      PERI_TRY(visit(n));
    }
    for (size_t k = 0; k < interface.size(); ++k) {
      ir::Value*& v = graph_.outputs[k];
      if (v->producer) w_.standing_for({v->producer});
      if (v->type.dtype != interface[k]) {
        PERI_ASSIGN(v, in_type(v, interface[k]));
      }
    }
    graph_.erase_dead();
    return count_;
  }

 private:
  // Starts narrow values: it multiplies by weights, or says which inner values it keeps narrow.
  static bool starts(const ir::Node& n) {
    const ops::OpDef* op = ops::find(n.op);
    return op && !op->jumps && (has_weight_port(n) || !op->stores.empty() || takes_rows(n));
  }
  // Takes rows of a table of weights.
  static bool takes_rows(const ir::Node& n) {
    return n.in(0) && n.in(0)->constant && n.in(0)->type.dtype == DType::kF32 && n.in(0)->type.rank() > 1 &&
           n.in(0)->constant->numel() > kSmall && n.inputs.size() > 1 && ops::role_of(n, 1) == ops::Role::kIndex;
  }
  // Takes narrow values as they come.
  static bool carries(const ir::Node& n) {
    const ops::OpDef* op = ops::find(n.op);
    const bool cast = n.op == "cast" && is_float(n.in(0)->type.dtype) && is_float(n.out()->type.dtype);
    return op && (cast || (!op->jumps && (op->elementwise || op->moves || op->keeps_range)));
  }
  // Its results grow far beyond what it reads: squares, powers, exponentials.
  static bool grows(const ir::Node* n) {
    return n && (n->op == "pow" || n->op == "exp" || (n->op == "mul" && n->in(0) == n->in(1)));
  }

  // Nodes that stay float32: all that neither start nor carry, and element-wise ones that only such nodes read.
  void find_wide() {
    for (size_t k = graph_.nodes.size(); k-- > 0;) {
      const ir::Node* n = graph_.nodes[k];
      const ops::OpDef* op = ops::find(n->op);
      const auto wide = [&](const ir::Node* u) { return wide_.contains(u); };
      const bool only_by_wide =
          op && op->elementwise && std::all_of(n->outputs.begin(), n->outputs.end(), [&](const ir::Value* v) {
            return !graph_.is_output(v) && std::all_of(v->users.begin(), v->users.end(), wide);
          });
      // What it reads may pass the range where its own result does not: the squares under a mean.
      const bool sums = op && op->keeps_range && n->in(0) && grows(n->in(0)->producer);
      if (!starts(*n) && (!carries(*n) || only_by_wide || sums)) wide_.insert(n);
    }
  }

  // `v`, which is float32 or narrow, in `type`, which is the other one.
  Result<ir::Value*> in_type(ir::Value* v, DType type) {
    const ir::Node* made = v->producer;
    if (made && made->op == "cast" && made->in(0)->type.dtype == type && (type == type_ || ours_.contains(made)))
      return made->in(0);
    ir::Value*& there = cast_[v];
    if (there) return there;
    if (v->constant && type == type_) {
      PERI_ASSIGN(Tensor t, saturated(*v->constant, type));
      return there = graph_.add_constant(v->name, std::move(t));
    }
    PERI_ASSIGN(there, w_.make("cast", {v}, {{"to", static_cast<int64_t>(type)}}, v));
    ours_.insert(there->producer);
    return there;
  }

  static bool stays_wide(const ir::Node& n, size_t k) {
    const ops::OpDef* op = ops::find(n.op);
    return op && k < op->inputs.size() && op->inputs[k].stays_wide;
  }

  Result<bool> reads(ir::Node* n, const std::vector<ir::Value*>& before, DType type) {
    for (size_t k = 0; k < before.size(); ++k) {
      ir::Value* v = before[k];
      const bool other =
          v && v->type.dtype != type && !stays_wide(*n, k) && (v->type.dtype == DType::kF32 || v->type.dtype == type_);
      if (other && type != DType::kInvalid) {
        PERI_ASSIGN(v, in_type(v, type));
      }
      if (v != n->inputs[k]) graph_.set_input(n, k, v);
    }
    return ops::infer_node(*n, &fresh_).ok();
  }

  Status visit(ir::Node* n) {
    const auto narrow = [&](const ir::Value* v) { return v && v->type.dtype == type_; };
    const bool any = std::any_of(n->inputs.begin(), n->inputs.end(), narrow);
    const bool becomes = !wide_.contains(n) && (any || starts(*n));
    if (n->op == "cast") return Ok{};  // it makes what it says of either
    if (!any && !becomes)              // what it makes follows what it reads, which may be float32 now
      return std::any_of(n->outputs.begin(), n->outputs.end(), narrow) ? ops::infer_node(*n, &fresh_) : Ok{};
    const std::vector<ir::Value*> before = n->inputs;
    std::vector<DType> made;
    for (const ir::Value* v : n->outputs) made.push_back(v->type.dtype);
    // What takes float32 beside narrow ones, or is about the bits of what it reads, reads float32, or what it did.
    const DType wanted = becomes ? type_ : DType::kF32;
    PERI_ASSIGN(bool fits, reads(n, before, wanted));
    if (!fits && becomes) {
      PERI_ASSIGN(fits, reads(n, before, DType::kF32));
    }
    if (!fits) {
      PERI_ASSIGN(fits, reads(n, before, DType::kInvalid));
    }
    PERI_TRY(ops::infer_node(*n, &fresh_));
    for (size_t k = 0; k < made.size(); ++k) count_ += n->outputs[k]->type.dtype != made[k];
    count_ += before != n->inputs;
    return Ok{};
  }

  ir::Graph& graph_;
  DType type_;
  Rewriter w_;
  int64_t fresh_ = 0, count_ = 0;
  std::unordered_set<const ir::Node*> wide_, ours_;
  std::unordered_map<ir::Value*, ir::Value*> cast_;
};
}  // namespace

Result<int64_t> narrow_values(ir::Graph& graph, DType type) { return Narrower(graph, type).run(); }

}  // namespace peri::passes
