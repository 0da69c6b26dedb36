// Inference of ops with bodies. The types of a body's inputs use only names of sizes that the inputs themselves bind;
// the types of its outputs are translated back to the names of the enclosing graph. Loop-carried values whose sizes
// change get fresh sizes.
#pragma once

#include <functional>

#include "ops/entry.hpp"

namespace peri::ops {

// Types all values of a body whose inputs are typed: infer_graph(), or an importer's own inference.
using BodyInference = std::function<Status(ir::Graph&)>;

// `if`: inputs are the condition and the arguments of both bodies. If the condition is known, only the branch taken is
// inferred. Errors: branches whose results differ in number, type or rank.
Status infer_if(InferContext& c, const BodyInference& infer);
// `loop`. Errors: a loop-carried value that changes its type or rank.
Status infer_loop(InferContext& c, const BodyInference& infer);

// Infers the bodies of a node of either kind and stores them as its attributes.
Status complete_bodies(ir::Node& node, int64_t* fresh_symbol, const BodyInference& infer);

// The single element of a value, where it is known: from a constant, known content, or evaluation of these by the
// reference.
std::optional<int64_t> known_element(const ir::Value& v);
// A small value that depends only on constants and known contents, computed by the reference; none where it does not,
// or where that takes more than a few operations.
std::optional<Tensor> computed_constant(const ir::Value& v);

}  // namespace peri::ops
