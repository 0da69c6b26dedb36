// Regions: connected pieces of the graph that one candidate runs. Cuts them out of a graph, and converts each to the
// graph of a problem.
#pragma once

#include <unordered_map>
#include <vector>

#include "ir/graph.hpp"
#include "kernels/entry.hpp"

namespace peri::lower {

struct Region {
  std::vector<ir::Node*> nodes;     // in graph order
  std::vector<ir::Value*> inputs;   // values from outside, activations and large constants, in order of first use
  std::vector<ir::Value*> outputs;  // values used outside, in order
  // Beginnings of the chain behind an anchor, shorter than the region, the shortest first: each reads nothing of the
  // rest, and the rest is a chain of its own.
  std::vector<std::vector<ir::Node*>> prefixes = {};
};

// What people call it: its first node, or the value that one makes.
std::string region_name(const Region& region);
// What a lock file calls it: a hash of its graph with symbolic dims.
std::string region_key(const Region& region);

// Fills inputs and outputs from nodes. Constants of up to kMaxInlineElements elements stay inside, but for weights of
// products and convolutions.
constexpr int64_t kMaxInlineElements = 16;
void close_region(const ir::Graph& graph, Region* region);

// The order in which regions hold nodes: the graph's, but what widens bytes stands before its first reader, so that the
// anchor of a region comes first.
std::unordered_map<const ir::Node*, size_t> places(const ir::Graph& graph);
// The node is sizes as expressions: it stands inside the regions that read it.
bool is_sizes(const ir::Node& node);
// True where the node only renames the memory of a row-major input.
bool is_view(const ir::Node& node);
// The 16-bit constant that a value is in float32: it is stored so, is widened as it is packed or loaded, and counts as
// a constant of the regions that read it. Null: it is none.
const ir::Value* stored_narrow(const ir::Value* v);
// A constant, or one that is stored narrow.
bool is_weight(const ir::Value* v);
// Takes the shape operand from those of them whose result has only sizes that the graph's inputs or the data operand
// have: what computed it is already in the type. The others read their operand, and may bind dimensions.
void drop_known_shapes(ir::Graph& graph);

// The region as a graph of its own, with symbolic dims and the layouts given (missing lists: row-major).
ir::Graph region_graph(const Region& region, const std::vector<ir::Layout>& inputs = {},
                       const std::vector<ir::Layout>& outputs = {});
// Which inputs of region_graph() are constants.
std::vector<bool> constant_inputs(const Region& region);

// Other dims than the tuned ones, at which every choice must hold too: named dimensions become distinct primes, so that
// sizes that only happen to agree at the tuned dims (a batch of 1) differ; multiples of them where a window or a slice
// would leave nothing.
DimBinding other_dims(const ir::Graph& graph, const DimBinding& tuned_for);

// Cuts the graph: every node that is not a view is in exactly one region. An anchor (convolution, matrix product,
// normalisation, ...) takes the element-wise chain that follows it as epilogue, and element-wise neighbours join into
// one region, as long as `accepts` says that some kernel takes the region; a region is shrunk from its end until one
// does.
using Accepts = std::function<bool(const Region&)>;
std::vector<Region> cut_regions(const ir::Graph& graph, const Accepts& accepts);

// The regions in an order in which they may run. REQUIRES: no cycle among them.
std::vector<Region> in_order(const ir::Graph& graph, std::vector<Region> regions);

}  // namespace peri::lower
