// A built graph in the newest form of every operator, with all types and shapes known, agreeing with what the model
// declares of its outputs.
#pragma once

#include "onnx/build_graph.hpp"
#include "ops/entry.hpp"

namespace peri::onnx {

// Goes over the nodes in order: upgrades each from its opset, then infers it, so that an upgrade sees types, shapes and
// contents of its node's inputs. Errors name the node. A declared output may be less exact than the inferred one;
// another element type, rank or constant dimension is an error naming both, but for an empty shape, which is taken for
// none and told in `notes`.
Status complete_graph(BuiltGraph& built, std::vector<PortInfo>* declared_outputs, std::vector<std::string>* notes);

}  // namespace peri::onnx
