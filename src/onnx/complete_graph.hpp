// A built graph in the newest form of every operator, with all types and shapes known, agreeing with what the model
// declares of its outputs.
#pragma once

#include "onnx/build_graph.hpp"
#include "ops/entry.hpp"

namespace peri::onnx {

// Goes over the nodes in order: upgrades each from its opset, then infers it, so that an upgrade sees types, shapes and
// contents of its node's inputs. Errors name the node. A declared output may be less exact than the inferred one;
// another element type is an error naming both; another rank or constant dimension, as of exporters that wrote down a
// run of another size, is told in `notes`: what the nodes give counts.
Status complete_graph(BuiltGraph& built, std::vector<PortInfo>* declared_outputs, std::vector<std::string>* notes);

}  // namespace peri::onnx
