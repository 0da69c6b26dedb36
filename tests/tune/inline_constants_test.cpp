// Every kernel on every sample whose inputs all stand in the region as constants, where no argument has a layout or
// memory to give, and on every sample with an optional input left out: what the kernel offers is right.
#include <gtest/gtest.h>

#include "ops/entry.hpp"
#include "tune/trial.hpp"

namespace peri::tune {
namespace {

// The sample with seeded constants in the place of its inputs; none where they are not numbers of known sizes.
std::optional<ir::Graph> without_inputs(std::string_view text) {
  auto g = ir::parse_graph(text);
  if (!g.ok() || !ops::infer_graph(*g).ok() || g->inputs.empty()) return std::nullopt;
  for (const ir::Value* v : g->inputs)
    if (!is_const(*v->type.shape) || v->type.dtype == DType::kString) return std::nullopt;
  auto arguments = make_arguments(*g, 7);
  if (!arguments.ok()) return std::nullopt;
  for (size_t k = 0; k < g->inputs.size(); ++k) g->replace_uses(g->inputs[k], g->add_constant("c", (*arguments)[k]));
  g->inputs.clear();
  for (const ir::Value* v : g->outputs)
    if (!v->producer) return std::nullopt;
  if (!ops::infer_graph(*g).ok()) return std::nullopt;
  for (const ir::Value* v : g->outputs)
    if (!is_const(*v->type.shape)) return std::nullopt;
  return std::move(*g);
}

// The sample without its optional input `port`; none where there is none, or the op does not mean anything without.
std::optional<ir::Graph> without_optional(std::string_view text, size_t port) {
  auto g = ir::parse_graph(text);
  if (!g.ok() || g->nodes.size() != 1 || !g->nodes[0]->in(port)) return std::nullopt;
  ir::Value* v = g->nodes[0]->in(port);
  g->set_input(g->nodes[0], port, nullptr);
  if (v->is_input && v->users.empty()) std::erase(g->inputs, v);
  if (!ops::infer_graph(*g).ok()) return std::nullopt;
  for (const auto* list : {&g->inputs, &g->outputs})
    for (const ir::Value* o : *list)
      if (!is_const(*o->type.shape) || o->type.dtype == DType::kString) return std::nullopt;
  return std::move(*g);
}

// Runs all that every kernel offers for `g`; returns how many that were.
int check_offers(const ir::Graph& g) {
  static const device::Target kTarget = device::cpu_target(1);
  static ThreadPool pool(1);
  const std::vector<bool> constant(g.inputs.size(), false);
  auto arguments = make_arguments(g, 7);
  if (!arguments.ok()) return 0;
  auto given = Given::make(std::move(*arguments), constant);
  if (!given.ok()) return 0;
  const auto expected = make_expected(g, given->row_major(), 1, 7);
  if (!expected.ok()) return 0;  // the reference refuses such data
  int offered = 0;
  for (const kernels::Entry* e : kernels::entries()) {
    SCOPED_TRACE(std::string(e->kernel.name) + " on " + ir::print(g));
    auto offers = e->kernel.offer({&g, constant}, kTarget);
    if (!offers.ok()) continue;
    for (kernels::Offer& o : *offers) {
      EXPECT_LE(o.inputs.size(), g.inputs.size());
      for (int k : o.in_place) EXPECT_LT(k, static_cast<int>(g.inputs.size()));
      o.inputs.resize(g.inputs.size());
      o.outputs.resize(g.outputs.size());
      auto trial = Trial::create(g, constant, {&e->kernel, o}, &*given, kTarget, &pool);
      if (!trial.ok()) continue;  // a late refusal
      Evidence evidence;
      const auto error = (*trial)->verify(&*expected, &evidence);
      EXPECT_TRUE(error.ok()) << error.error().text();
      ++offered;
    }
  }
  return offered;
}

TEST(InlineConstants, NoKernelCountsOnAnArgument) {
  int offered = 0;
  for (const ops::OpDef* op : ops::all())
    for (std::string_view text : op->samples)
      if (const std::optional<ir::Graph> g = without_inputs(text)) offered += check_offers(*g);
  EXPECT_GT(offered, 100);
}

TEST(LeftOut, NoKernelCountsOnAnOptionalInput) {
  int offered = 0;
  for (const ops::OpDef* op : ops::all())
    for (std::string_view text : op->samples)
      for (size_t port = 0; port < op->inputs.size(); ++port) {
        if (!op->inputs[port].optional) continue;
        if (const std::optional<ir::Graph> g = without_optional(text, port)) offered += check_offers(*g);
      }
  EXPECT_GT(offered, 10);
}

}  // namespace
}  // namespace peri::tune
