// The lock of a build from its steps, and the comparison of a lock's model with the one at hand.
#include "compile/locks.hpp"

#include <set>

#include "base/hash.hpp"
#include "ir/bodies.hpp"
#include "ir/text.hpp"

namespace peri::compile {

namespace {
// Those of a graph, then those of its bodies: the order in which they are asked for.
void add_choices(const std::vector<lower::StepReport>& steps, std::set<std::string>* conversions, plan::Lock* lock) {
  for (const lower::StepReport& s : steps) {
    if (s.key.empty()) continue;  // a copy between devices follows from the rest
    if (s.conversion && !conversions->insert(s.key).second) continue;
    const std::string chosen = s.bodies.empty() ? s.chosen : "reference";
    (s.conversion ? lock->conversions : lock->regions)
        .push_back({s.name, s.key, chosen, s.layouts, s.requires_isa, s.library, s.fallback, s.fallback_isa});
  }
  for (const lower::StepReport& s : steps)
    for (const auto& body : s.bodies) add_choices(body, conversions, lock);
}

}  // namespace

plan::Lock lock_of(const Options& options, const plan::LockedModel& model, const Compiled& made) {
  plan::Lock lock;
  lock.model = model;
  lock.builder = options.builder;
  lock.backend = made.program.backend;
  lock.provider = options.tune.provider;
  if (options.dtype != DType::kInvalid) lock.dtype = dtype_name(options.dtype);
  if (options.io_dtype != DType::kInvalid) lock.io_dtype = dtype_name(options.io_dtype);
  lock.dims = made.program.tuned_for;
  for (const DimBinding& dims : made.bounds) lock.also.emplace_back(dims.begin(), dims.end());
  lock.at_least = made.program.at_least;
  lock.at_most = made.program.at_most;
  lock.fixed = options.fixed;
  lock.disabled_passes = options.disabled_passes;
  std::set<std::string> conversions;
  add_choices(made.steps, &conversions, &lock);
  return lock;
}

// Operators and types, without weights: equal for a model and what is made of it by further training.
static std::string structure_of(const ir::Graph& graph) {
  std::string text;
  ir::for_each_node(graph, [&](const ir::Node& n) {
    text += n.op;
    for (const auto* list : {&n.inputs, &n.outputs})
      for (const ir::Value* v : *list) text += v ? " " + ir::type_text(v->type) : " -";
    text += '\n';
  });
  return hex64(hash_text(text));
}

plan::LockedModel locked_model(const ir::Graph& imported) {
  return {imported.name, hex64(hash_text(ir::print(imported))), structure_of(imported)};
}

std::string other_model_note(const plan::LockedModel& locked, const plan::LockedModel& here) {
  if (locked.identity.empty() || locked.identity == here.identity) return "";
  const std::string of = "'" + locked.name + "' of identity " + locked.identity + ", not of this one, " + here.identity;
  if (locked.structure == here.structure)
    return "the lock was made with other weights: of " + of + "; its choices do not depend on them";
  return "the lock was made of another model, whose steps are alike: of " + of;
}

}  // namespace peri::compile
