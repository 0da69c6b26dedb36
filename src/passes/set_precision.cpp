// Pass set_precision: the arithmetic of float16 and bfloat16 values, and the type in which weights are stored.
#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "ir/bodies.hpp"
#include "passes/entry.hpp"
#include "passes/rewrite/narrow.hpp"
#include "passes/rewrite/narrow_values.hpp"
#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {
namespace {

// Whether a pooling window may consist of padding only, with the lowest number of the computing type as its result: one
// with dilation or that extends beyond the end. Otherwise padding is smaller than a window.
bool windows_may_be_empty(const ir::Node& n) {
  if (n.op != "max_pool") return false;
  const std::vector<int64_t> pads = n.ints("pads"), dilations = n.ints("dilations");
  const bool padded = n.s("auto_pad", "NOTSET") != "NOTSET" ||
                      std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad != 0; });
  const bool holes = std::any_of(dilations.begin(), dilations.end(), [](int64_t d) { return d != 1; });
  return n.i("ceil_mode") != 0 || (padded && holes);
}

class Setter {
 public:
  Setter(ir::Graph& graph, const Precision& precision)
      : graph_(graph), precision_(precision), w_(graph, "set_precision"), fresh_(ops::first_fresh(graph)) {}

  Result<int64_t> run() {
    PERI_TRY(store_weights());
    if (!is_narrow(precision_.values)) PERI_TRY(widen_values());
    graph_.erase_dead();  // casts for nodes that cannot read them
    return count_ + w_.count();
  }

 private:
  Status widen_values() {
    for (ir::Node* n : w_.nodes()) {
      if (!w_.live(n)) continue;
      w_.standing_for({n});
      PERI_TRY(visit(n));
    }
    for (ir::Value*& v : graph_.outputs)
      if (was_.contains(v)) {
        w_.standing_for({v->producer});
        PERI_ASSIGN(v, narrowed(v, was_.at(v)));
      }
    return Ok{};
  }

  static ir::Attrs to(DType t) { return {{"to", static_cast<int64_t>(t)}}; }

  // ---- weights
  bool may_round(const ir::Value* v) const {
    return std::any_of(v->users.begin(), v->users.end(), [&](const ir::Node* n) {
      for (size_t k = 0; k < n->inputs.size(); ++k)
        if (n->inputs[k] == v && passes::may_round(*n, k)) return true;
      return false;
    });
  }

  // Float32 constants become narrow ones, which their readers see through a cast.
  Status store_weights() {
    const DType type = precision_.weights;
    if (!is_narrow(type)) return Ok{};
    for (ir::Value* v : graph_.constants()) {
      if (v->type.dtype != DType::kF32 || v->constant->numel() <= kMaxUnrounded || graph_.is_output(v) ||
          v->users.empty())
        continue;
      const bool held = holds_exactly(*v->constant, type);
      if (!held && !(precision_.rounds && may_round(v))) continue;
      PERI_ASSIGN(Tensor stored, saturated(*v->constant, type));
      ir::Value* c = graph_.add_constant(v->name, std::move(stored));
      const std::vector<ir::Node*> users = v->users;
      for (ir::Node* n : users)
        for (size_t k = 0; k < n->inputs.size(); ++k) {
          if (n->inputs[k] != v) continue;
          w_.standing_for({n});
          PERI_TRY(read_stored(n, k, c));
        }
      ++count_;
    }
    return Ok{};
  }

  // Input k of a node becomes the narrow constant: as it is where elements are only copied, else widened.
  Status read_stored(ir::Node* n, size_t k, ir::Value* c) {
    const auto other_floats = [&] {  // which would be of another type than it
      for (size_t i = 0; i < n->inputs.size(); ++i)
        if (i != k && n->inputs[i] && is_float(n->inputs[i]->type.dtype)) return true;
      return false;
    };
    if (k != 0 || !copies(*n) || n->outputs.size() != 1 || graph_.is_output(n->out()) || n->op == "concat" ||
        other_floats()) {
      PERI_ASSIGN(ir::Value * wide, widened(c));
      graph_.set_input(n, k, wide);
      return Ok{};
    }
    graph_.set_input(n, k, c);
    PERI_TRY(ops::infer_node(*n, &fresh_));
    PERI_ASSIGN(ir::Value * wide, widened(n->out()));
    const std::vector<ir::Node*> users = n->out()->users;
    for (ir::Node* u : users)
      for (size_t i = 0; i < u->inputs.size(); ++i)
        if (u != wide->producer && u->inputs[i] == n->out()) graph_.set_input(u, i, wide);
    return Ok{};
  }

  // ---- values
  // A narrow value converted to float32.
  Result<ir::Value*> widened(ir::Value* v) {
    ir::Value*& there = wide_[v];
    if (there) return there;
    if (v->constant && (v->constant->numel() <= kMaxUnrounded || precision_.weights == DType::kF32)) {
      PERI_ASSIGN(Tensor t, in_float32(*v->constant));
      return there = graph_.add_constant(v->name, std::move(t));
    }
    PERI_ASSIGN(there, w_.make("cast", {v}, to(DType::kF32), v));
    return there;
  }
  Result<ir::Value*> narrowed(ir::Value* v, DType type) {
    ir::Value*& there = narrow_[{v, type}];
    if (!there) {
      PERI_ASSIGN(there, w_.make("cast", {v}, to(type), v));
    }
    return there;
  }

  Status visit(ir::Node* n) {
    const auto concerns = [&](const ir::Value* v) { return v && (is_narrow(v->type.dtype) || was_.contains(v)); };
    if (std::none_of(n->inputs.begin(), n->inputs.end(), concerns) &&
        std::none_of(n->outputs.begin(), n->outputs.end(), concerns))
      return Ok{};
    if (n->op == "cast_like") {
      ir::Attrs attrs = n->attrs;
      attrs["to"] = static_cast<int64_t>(n->out()->type.dtype);
      PERI_ASSIGN(ir::Value * y, w_.make("cast", {n->in(0)}, std::move(attrs), n->out()));
      w_.replace(n->out(), y);
      return visit_cast(y->producer);
    }
    if (n->op == "cast") return visit_cast(n);
    const bool stored =
        precision_.weights != DType::kF32 && std::all_of(n->inputs.begin(), n->inputs.end(), [&](const ir::Value* v) {
          return !v || !is_float(v->type.dtype) || (is_narrow(v->type.dtype) && (v->constant || stored_.contains(v)));
        });
    if (stored && copies(*n)) {
      for (const ir::Value* v : n->outputs) stored_.insert(v);
      return Ok{};
    }
    return widen_node(n);
  }

  // Lets the node compute in float32. One that cannot (it works on bits, or its result has this type for any input)
  // keeps its inputs.
  Status widen_node(ir::Node* n) {
    const std::vector<ir::Value*> before = n->inputs;
    std::vector<DType> had;
    for (const ir::Value* v : n->outputs) had.push_back(v->type.dtype);
    for (size_t k = 0; k < before.size(); ++k)
      if (before[k] && is_narrow(before[k]->type.dtype)) {
        PERI_ASSIGN(ir::Value * wide, widened(before[k]));
        graph_.set_input(n, k, wide);
      }
    const bool own_type = n->op == "bit_cast" || windows_may_be_empty(*n) || ir::has_bodies(*n);
    if (own_type || !ops::infer_node(*n, &fresh_).ok()) {
      for (size_t k = 0; k < before.size(); ++k) {
        const auto dropped = dropped_.find({n, k});
        ir::Value* v = before[k];
        if (dropped != dropped_.end() && dropped->second == DType::kF32 && v && was_.contains(v)) {
          PERI_ASSIGN(v, narrowed(v, was_.at(v)));  // rounded, and of the type that it read
          PERI_ASSIGN(v, widened(v));
        } else if (dropped != dropped_.end()) {
          PERI_ASSIGN(v, narrowed(v, dropped->second));
        } else if (v && was_.contains(v)) {
          PERI_ASSIGN(v, narrowed(v, was_.at(v)));
        }
        if (v != n->inputs[k]) graph_.set_input(n, k, v);
      }
      return ops::infer_node(*n, &fresh_);
    }
    for (size_t k = 0; k < had.size(); ++k)
      if (is_narrow(had[k]) && n->outputs[k]->type.dtype == DType::kF32) was_[n->outputs[k]] = had[k];
    ++count_;
    return Ok{};
  }

  Status visit_cast(ir::Node* n) {
    ir::Value *x = n->in(0), *y = n->out();
    const DType type = static_cast<DType>(n->i("to"));
    if (const auto was = was_.find(x); was != was_.end()) {
      if (type == DType::kF32 || type == was->second) {
        if (graph_.is_output(y) && type == DType::kF32) return Ok{};  // an output of its own
        if (graph_.is_output(y) || type == was->second) return drop_cast(n, type);
        for (const ir::Node* u : y->users)
          for (size_t k = 0; k < u->inputs.size(); ++k)
            if (u->inputs[k] == y) dropped_[{u, k}] = type;
        w_.replace(y, x);
      } else if (type == DType::kString) {
        PERI_ASSIGN(ir::Value * narrow, narrowed(x, was->second));
        graph_.set_input(n, 0, narrow);
      }
      return Ok{};
    }
    return Ok{};  // one from float32 rounds because the model says so: who computes with it widens what it left
  }

  // A cast to the type of its argument before narrowing does not round on its own: users that compute read its input
  // instead. Users that only cast, and outputs, read the value rounded to that type.
  Status drop_cast(ir::Node* n, DType type) {
    ir::Value *x = n->in(0), *y = n->out();
    const auto computes = [](const ir::Node* u) {
      return u->op != "cast" && u->op != "cast_like" && u->op != "bit_cast";
    };
    const std::vector<ir::Node*> users = y->users;
    for (ir::Node* u : users)
      for (size_t k = 0; k < u->inputs.size(); ++k)
        if (computes(u) && u->inputs[k] == y) {
          dropped_[{u, k}] = type;
          graph_.set_input(u, k, x);
        }
    return Ok{};
  }

  ir::Graph& graph_;
  const Precision& precision_;
  Rewriter w_;
  int64_t fresh_ = 0, count_ = 0;
  std::unordered_map<const ir::Value*, DType> was_;  // computed in float32 now: the type it had
  std::unordered_map<ir::Value*, ir::Value*> wide_;
  std::map<std::pair<ir::Value*, DType>, ir::Value*> narrow_;
  std::unordered_set<const ir::Value*> stored_;                  // copies of narrow constants
  std::map<std::pair<const ir::Node*, size_t>, DType> dropped_;  // inputs that were cast to this type
};

Result<int64_t> run_at(ir::Graph& graph, const Precision& precision) {
  int64_t narrowed = 0;
  if (is_narrow(precision.values)) {
    PERI_ASSIGN(narrowed, narrow_values(graph, precision.values));
  }
  PERI_ASSIGN(const int64_t set, Setter(graph, precision).run());
  return narrowed + set;
}
Result<int64_t> run(ir::Graph& graph) { return run_at(graph, {}); }

}  // namespace

extern const Entry set_precision_entry;
const Entry set_precision_entry{{
    .name = "set_precision",
    .contract =
        "Where nothing computes in 16 bits, values of float16 and bfloat16 are float32, unrounded, from where they are "
        "read to where an interface asks for them; a cast from float32 to 16 bits stays, because the model rounds "
        "there. Weights of more than 64 "
        "elements stay in 16 bits and are read through a cast, which lowering takes as the way they are stored; rows "
        "taken from a table are widened after they are taken. Where narrow values are asked for, products, rows of "
        "tables, what is computed of them element by element, and norms, means and pooling of them, which sum in "
        "float32, are narrow; sums and softmax, and what they alone read, as the addition of a mask, are float32 "
        "between casts, and so are squares under a mean and the mask of an attention. Where a narrow type for weights "
        "is asked for, float32 weights "
        "become that, saturated where they pass its largest number. What is about bits, or a maximum over windows that "
        "may hold nothing but padding, stays in its type. Interfaces keep their types. It stands last, so "
        "that what the passes before made of weights is stored, and no cast is between what they join.",
    .follows = {"fold_constants", "fold_batch_norm", "fuse_attention", "sink_transposes"},
    .run = run,
    .examples =
        {{"a narrow layer",
          "graph { input x: f16[2,16]; const w: f16[16,8] = seeded(0.2, 1); const b: f16[8] = [0.5, 1.0, 0.0, 0.0, "
          "0.0, 0.0, 0.0, "
          "2.0]; a = matmul(x, w); y = add(a, b); output y }",
          "graph { input x: f16[2,16]; const w: f16[16,8] = seeded(0.2, 1); const b: f32[8] = [0.5, 1.0, 0.0, 0.0, "
          "0.0, 0.0, 0.0, "
          "2.0]; c = cast(x) {to=1}; d = cast(w) {to=1}; a = matmul(c, d); e = add(a, b); y = cast(e) {to=3}; output y "
          "}"},
         {"rows are widened after they are taken",
          "graph { input i: i64[5]; const t: f16[40,8] = seeded(1.0, 1); r = gather(t, i); y = relu(r); output y }",
          "graph { input i: i64[5]; const t: f16[40,8] = seeded(1.0, 1); r = gather(t, i); c = cast(r) {to=1}; a = "
          "relu(c); y = cast(a) {to=3}; output y }"},
         {"a rounding that the model wants stays",
          "graph { input x: f32[5]; a = cast(x) {to=4}; b = cast(a) {to=1}; y = relu(b); output y }",
          "graph { input x: f32[5]; a = cast(x) {to=4}; b = cast(a) {to=1}; y = relu(b); output y }"},
         {"a cast from float32 rounds, because the model says so",
          "graph { input x: bf16[4,8]; const s: f32[8] = [1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]; a = cast(x) {to=1}; "
          "n = rms_normalization(a, s); b = cast(n) {to=4}; y = relu(b); output y }",
          "graph { input x: bf16[4,8]; const s: f32[8] = [1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]; a = cast(x) {to=1}; "
          "n = rms_normalization(a, s); b = cast(n) {to=4}; w = cast(b) {to=1}; z = relu(w); y = cast(z) {to=4}; "
          "output "
          "y }"},
         {"a reader that computes moves no reader that is rounded",
          "graph { input x: f32[4,8]; a = cast(x) {to=3}; y = relu(a); b = cast(a) {to=1}; d = sub(x, b); output y; "
          "output d }",
          "graph { input x: f32[4,8]; a = cast(x) {to=3}; b = cast(a) {to=1}; d = sub(x, b); w = cast(a) {to=1}; r = "
          "relu(w); y = cast(r) {to=3}; output y; output d }"},
         {"a window of padding alone gives the lowest number of the model's type",
          "graph { input x: f16[1,1,4,1]; y = max_pool(x) {dilations=[1,3], kernel_shape=[1,2], pads=[0,2,0,2]}; z = "
          "relu(y); output z }",
          "graph { input x: f16[1,1,4,1]; y = max_pool(x) {dilations=[1,3], kernel_shape=[1,2], pads=[0,2,0,2]}; c = "
          "cast(y) {to=1}; a = relu(c); z = cast(a) {to=3}; output z }"},
         {"what is found of narrow values, and is none itself", "graph { input x: f16[7]; y = is_nan(x); output y }",
          "graph { input x: f16[7]; c = cast(x) {to=1}; y = is_nan(c); output y }"},
         {"what is about bits stays", "graph { input x: f16[7]; y = bit_cast(x) {to=12}; output y }",
          "graph { input x: f16[7]; y = bit_cast(x) {to=12}; output y }"},
         {"weights in the type asked for",
          "graph { input x: f32[2,16]; const w: f32[16,8] = splat(0.625); y = matmul(x, w); output y }",
          "graph { input x: f32[2,16]; const w: f16[16,8] = splat(0.625); c = cast(w) {to=1}; y = matmul(x, c); output "
          "y }",
          {.weights = DType::kF16, .rounds = true}},
         {"a mask is added in float32",
          "graph { input a: f16[4,8]; input b: f16[8,6]; input v: f16[6,3]; const m: f32[6] = [0.0, 0.0, -3.4e38, 0.0, "
          "0.0, -3.4e38]; c = cast(a) {to=1}; d = cast(b) {to=1}; e = cast(v) {to=1}; s = matmul(c, d); t = add(s, m); "
          "p = softmax(t); y = matmul(p, e); output y }",
          "graph { input a: f16[4,8]; input b: f16[8,6]; input v: f16[6,3]; const m: f32[6] = [0.0, 0.0, -3.4e38, 0.0, "
          "0.0, -3.4e38]; s = matmul(a, b); w = cast(s) {to=1}; t = add(w, m); p = softmax(t); n = cast(p) {to=3}; z = "
          "matmul(n, v); y = cast(z) {to=1}; output y }",
          {.values = DType::kF16}},
         {"a norm takes and gives what a product does, a mean of squares does not",
          "graph { input x: bf16[4,8]; const w: f32[8,8] = splat(0.5); const s: f32[8] = [1.0, 2.0, 1.0, 1.0, 1.0, "
          "1.0, "
          "1.0, 1.0]; c = cast(x) {to=1}; a = matmul(c, w); r = add(a, c); n = rms_normalization(r, s); b = matmul(n, "
          "w); y = add(b, r); output y }",
          "graph { input x: bf16[4,8]; const w: bf16[8,8] = splat(0.5); const s: bf16[8] = [1.0, 2.0, 1.0, 1.0, 1.0, "
          "1.0, 1.0, 1.0]; a = matmul(x, w); r = add(a, x); n = rms_normalization(r, s); b = matmul(n, w); z = add(b, "
          "r); y = cast(z) {to=1}; output y }",
          {.values = DType::kBF16}},
         {"squares and their mean are float32",
          "graph { input x: f16[4,8]; const w: f16[8,8] = splat(0.5); const k: i64[1] = [1]; a = matmul(x, w); q = "
          "mul(a, a); m = reduce_mean(q, k); y = mul(a, m); output y }",
          "graph { input x: f16[4,8]; const w: f16[8,8] = splat(0.5); const k: i64[1] = [1]; a = matmul(x, w); c = "
          "cast(a) {to=1}; q = mul(c, c); m = reduce_mean(q, k); d = cast(m) {to=3}; y = mul(a, d); output y }",
          {.values = DType::kF16}},
         {"the mask of an attention is float32",
          "graph { input x: f16[1,1,4,8]; const w: f16[8,8] = splat(0.5); input m: f32[1,1,1,4]; q = matmul(x, w); y = "
          "attention(q, x, x, m); output y }",
          "graph { input x: f16[1,1,4,8]; const w: f16[8,8] = splat(0.5); input m: f32[1,1,1,4]; q = matmul(x, w); y = "
          "attention(q, x, x, m); output y }",
          {.values = DType::kF16}}},
    .run_at = run_at,
}};

}  // namespace peri::passes
