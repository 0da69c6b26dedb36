// Regions without their values that have no elements.
#include "exec/region/emptied.hpp"

#include <algorithm>
#include <array>

namespace peri::exec {

namespace {
bool has_zero(const ir::Value& v) {
  return v.type.shape &&
         std::any_of(v.type.shape->begin(), v.type.shape->end(), [](const Dim& d) { return d.is_const(0); });
}

bool emptied(const ir::Graph& region, const ir::Value& v) {
  if (v.constant || !has_zero(v)) return false;
  const ir::Value* const stated = region.find(v.name);
  return !stated || !has_zero(*stated);
}

// Arguments of a region, of which a part is passed on.
template <class T, size_t kFew = 64>
class Part {
 public:
  Part(std::span<const T> all, const std::vector<size_t>& which)
      : size_(which.size()), many_(size_ > kFew ? size_ : 0) {
    T* const to = many_.empty() ? few_.data() : many_.data();
    for (size_t k = 0; k < size_; ++k) to[k] = all[which[k]];
  }
  operator std::span<const T>() const { return {many_.empty() ? few_.data() : many_.data(), size_}; }

 private:
  size_t size_;
  std::array<T, kFew> few_ = {};
  std::vector<T> many_;
};

class RestInstance final : public runtime::Instance {
 public:
  RestInstance(std::unique_ptr<runtime::Instance> instance, std::vector<size_t> inputs, std::vector<size_t> outputs)
      : instance_(std::move(instance)), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}
  runtime::Scratch scratch() const override { return instance_->scratch(); }
  Status run(const runtime::RunContext& context) const override {
    const Part<const void*> reads(context.reads, inputs_);
    const Part<void*> writes(context.writes, outputs_);
    runtime::RunContext part = context;
    part.reads = reads;
    part.writes = writes;
    return instance_->run(part);
  }
  size_t workspace_bytes() const override { return instance_->workspace_bytes(); }
  bool reads_argument(size_t k) const override {
    const auto at = std::find(inputs_.begin(), inputs_.end(), k);
    return at != inputs_.end() && instance_->reads_argument(static_cast<size_t>(at - inputs_.begin()));
  }
  Status enqueue(const runtime::EnqueueContext& context) const override {
    const Part<runtime::EnqueueContext::Argument> reads(context.reads, inputs_), writes(context.writes, outputs_);
    runtime::EnqueueContext part = context;
    part.reads = reads;
    part.writes = writes;
    return instance_->enqueue(part);
  }
  bool may_fault() const override { return instance_->may_fault(); }
  Error fault(int32_t word) const override { return instance_->fault(word); }

 private:
  std::unique_ptr<runtime::Instance> instance_;
  std::vector<size_t> inputs_, outputs_;
};

// Results without elements: nothing is computed or read.
class NothingToDo final : public runtime::Instance {
 public:
  bool reads_argument(size_t) const override { return false; }
  Status run(const runtime::RunContext&) const override { return Ok{}; }
  Status enqueue(const runtime::EnqueueContext&) const override { return Ok{}; }
};
}  // namespace

bool any_emptied(const ir::Graph& region, const ir::Graph& bound) {
  return std::any_of(bound.values().begin(), bound.values().end(), [&](const auto& v) { return emptied(region, *v); });
}

std::optional<Rest> without_emptied(const ir::Graph& region, const ir::Graph& bound) {
  Rest rest{bound.clone(), {}, {}};
  ir::Graph& g = rest.graph;
  std::vector<ir::Value*> outputs;
  std::vector<std::string> names;
  for (size_t k = 0; k < g.outputs.size(); ++k) {
    if (emptied(region, *g.outputs[k])) continue;
    rest.outputs.push_back(k);
    outputs.push_back(g.outputs[k]);
    if (k < g.output_names.size()) names.push_back(g.output_names[k]);
  }
  g.outputs = std::move(outputs);
  g.output_names = std::move(names);
  g.erase_dead();
  const std::vector<ir::Node*> nodes = g.nodes;
  for (ir::Node* const n : nodes) {
    if (n->op != "concat") continue;  // By name: the only op that an operand without elements leaves as it is
    std::vector<ir::Value*> full;
    for (ir::Value* const v : n->inputs)
      if (!emptied(region, *v)) full.push_back(v);
    if (full.size() == n->inputs.size()) continue;
    if (full.empty()) return std::nullopt;
    ir::Node* const shorter = g.add("concat", full, n->attrs, n->outputs[0]->name);
    shorter->origins = n->origins;
    shorter->outputs[0]->type = n->outputs[0]->type;
    const bool inner = !g.is_output(n->outputs[0]);
    g.replace_uses(n->outputs[0], full.size() == 1 && inner ? full[0] : shorter->outputs[0]);
  }
  g.erase_dead();
  if (!g.sort().ok()) return std::nullopt;
  for (const ir::Node* n : g.nodes)
    for (const auto* list : {&n->inputs, &n->outputs})
      for (const ir::Value* v : *list)
        if (v && emptied(region, *v)) return std::nullopt;
  std::vector<ir::Value*> inputs, unread;
  for (size_t k = 0; k < g.inputs.size(); ++k) {
    if (g.inputs[k]->users.empty() && !g.is_output(g.inputs[k])) {
      unread.push_back(g.inputs[k]);
      continue;
    }
    rest.inputs.push_back(k);
    inputs.push_back(g.inputs[k]);
  }
  g.inputs = std::move(inputs);
  for (ir::Value* const v : unread) {
    v->is_input = false;
    g.forget(v);
  }
  return rest;
}

namespace {
bool may_share(const kernels::Instance& instance, const Rest& rest, std::span<const int32_t> shares) {
  for (size_t j = 0; j < rest.outputs.size(); ++j) {
    if (rest.outputs[j] >= shares.size() || shares[rest.outputs[j]] < 0) continue;
    const auto argument = static_cast<size_t>(shares[rest.outputs[j]]);
    const auto at = std::find(rest.inputs.begin(), rest.inputs.end(), argument);
    if (at == rest.inputs.end() || !instance.may_take(j, static_cast<size_t>(at - rest.inputs.begin()))) return false;
  }
  return true;
}
}  // namespace

RestKernel kernel_for_rest(std::string_view executor, const Rest& rest, const kernels::Constants& weights,
                           const std::vector<bool>& constant, const kernels::Target& target,
                           std::span<const int32_t> shares) {
  RestKernel out;
  std::vector<bool> of_rest;
  for (const size_t k : rest.inputs) {
    out.weights.push_back(weights[k]);
    of_rest.push_back(constant[k]);
  }
  out.chosen = other_kernel(executor, nullptr, {&rest.graph, of_rest}, {out.weights, nullptr, &target, nullptr, false},
                            [&](const auto&, const kernels::Instance& made) { return may_share(made, rest, shares); });
  return out;
}

std::unique_ptr<runtime::Instance> instance_of_rest(std::unique_ptr<runtime::Instance> instance,
                                                    std::vector<size_t> inputs, std::vector<size_t> outputs) {
  if (!instance) return std::make_unique<NothingToDo>();
  return std::make_unique<RestInstance>(std::move(instance), std::move(inputs), std::move(outputs));
}

}  // namespace peri::exec
