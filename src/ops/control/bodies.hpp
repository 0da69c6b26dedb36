// Inference of ops that run bodies. A body's inputs get types that name only sizes which the inputs themselves bind;
// what its outputs are is said again in the names outside. Carried values whose sizes change get sizes of their own.
#pragma once

#include <functional>

#include "ops/entry.hpp"

namespace peri::ops {

// Types of all values of a body whose inputs have theirs: infer_graph(), or what an importer does.
using BodyInference = std::function<Status(ir::Graph&)>;

// `if`: inputs are the condition and what the bodies take. Where the condition is known only the branch that it takes
// is inferred. Errors: branches that give other numbers, types or ranks of results.
Status infer_if(InferContext& c, const BodyInference& infer);
// `loop`. Errors: a carried value that changes its type or rank.
Status infer_loop(InferContext& c, const BodyInference& infer);

// Infers the bodies of a node of either kind, which become its attributes.
Status complete_bodies(ir::Node& node, int64_t* fresh_symbol, const BodyInference& infer);

// The one element of a value, where it is known: a constant, a known content, or what the reference makes of such.
std::optional<int64_t> known_element(const ir::Value& v);
// A small value that follows from constants and known contents alone, computed by the reference; none: it does not, or
// costs more than a few operations.
std::optional<Tensor> computed_constant(const ir::Value& v);

}  // namespace peri::ops
