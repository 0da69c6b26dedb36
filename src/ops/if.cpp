// If: one of two bodies runs. Both take the same arguments, which follow the condition.
#include "ir/bodies.hpp"
#include "ops/control/bodies.hpp"
#include "ops/control/run.hpp"

namespace peri::ops {
namespace {
Status infer(InferContext& c) { return infer_if(c, infer_graph); }

Status reference(RefCall& call) {
  const auto branches = ir::bodies_of(call.node);  // "else_branch", "then_branch"
  std::vector<RefTensor> arguments;
  for (size_t k = 1; k < call.in.size(); ++k) arguments.push_back(*call.in[k]);
  const RefTensor& condition = *call.in[0];
  PERI_ASSIGN(call.out, run_reference(*branches[condition.i[0] ? 1 : 0].second, arguments, options_of_body(call)));
  return fill_radii(call);
}

Cost cost(const ir::Node& node) {
  Cost most;
  for (const auto& [key, body] : ir::bodies_of(node)) {
    const Cost c = cost_of_body(*body);
    if (c.flops >= most.flops) most = c;
  }
  return most;
}
}  // namespace

extern const Entry if_entry;
const Entry if_entry{{
    {.name = "if",
     .onnx = "If",
     .versions = {1, 11, 13, 16, 19, 21, 23, 24, 25},
     .inputs = {{"cond", kBools}, {"captures", kAnyType, true, true}},
     .outputs = {{"results", kAnyType, false, true}},
     .attrs = {{"then_branch", AttrKind::kGraph, true}, {"else_branch", AttrKind::kGraph, true}},
     .infer = infer,
     .reference = reference,
     .cost = cost,
     .control = Control::kBranch,
     .samples =
         {"graph { input c: bool[]; input x: f32[2,3]; y = if(c, x) {then_branch=graph { input a: f32[2,3]; b = "
          "relu(a); output b }, else_branch=graph { input a: f32[2,3]; b = neg(a); output b }}; output y }",
          "graph { input c: bool[1]; input x: f32[2]; input z: i64[3]; y, k = if(c, x, z) {then_branch=graph { input "
          "a: f32[2]; input i: i64[3]; output a; output i }, else_branch=graph { input a: f32[2]; input i: i64[3]; b = "
          "add(a, a); j = add(i, i); output b; output j }}; output y; output k }",
          "graph { const c: bool[] = [1]; input x: f32[2,1]; y = if(c, x) {then_branch=graph { input a: f32[2,1]; "
          "const i: i64[1] = [1]; b = squeeze(a, i); output b }, else_branch=graph { input a: f32[2,1]; output a }}; "
          "output y }"}},
}};
}  // namespace peri::ops
