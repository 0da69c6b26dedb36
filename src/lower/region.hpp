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
  std::vector<ir::Value*> inputs;   // values from outside: activations and large constants, in order of first use
  std::vector<ir::Value*> outputs;  // values used outside, in order
  // Prefixes of the chain after an anchor, shorter than the region, the shortest first: each reads nothing of the rest,
  // and the rest is a chain of its own.
  std::vector<std::vector<ir::Node*>> prefixes = {};
};

// Its name in reports: that of its first node, or of the value that the node produces.
std::string region_name(const Region& region);
// Its key in a lock file: a hash of its graph with symbolic dims.
std::string region_key(const Region& region);

// Sets inputs and outputs from the nodes. Constants of up to kMaxInlineElements elements are part of the region, except
// factors of products and convolutions.
constexpr int64_t kMaxInlineElements = 16;
void close_region(const ir::Graph& graph, Region* region);

// A node of more operands than a kernel reads (kernels::block::kMaxArguments) is joined with no other: a region with it
// would be stated, and refused, once for each of its neighbours.
constexpr size_t kMaxOperands = 64;
bool stands_alone(const ir::Node& node);

// The order of the nodes of a region: the graph's, except that a node that widens bytes directly precedes its first
// user, so that the anchor of a region comes first.
std::unordered_map<const ir::Node*, size_t> places(const ir::Graph& graph);
// True where the node is only another view of the memory of a row-major input.
bool is_view(const ir::Node& node);
// The 16-bit constant whose float32 conversion a value is: it is stored in 16 bits, is widened when it is packed or
// loaded, and counts as a constant of the regions that read it. Null: none.
const ir::Value* stored_narrow(const ir::Value* v);
// A constant, or one that is stored narrow.
bool is_weight(const ir::Value* v);
// Removes the shape operand of nodes whose result has only sizes of the graph's inputs or of the data operand: the
// computed shape is already in the type. The others read their operand, and may bind dimensions.
void drop_known_shapes(ir::Graph& graph);

// The region as a separate graph, with symbolic dims and the layouts given (missing lists: row-major).
ir::Graph region_graph(const Region& region, const std::vector<ir::Layout>& inputs = {},
                       const std::vector<ir::Layout>& outputs = {});
// Which inputs of region_graph() are constants.
std::vector<bool> constant_inputs(const Region& region);

// Dims other than the tuned ones, at which every choice must be valid too: named dimensions become distinct primes, so
// that sizes that only happen to agree at the tuned dims (a batch of 1) differ; multiples of them where a window or a
// slice would otherwise be empty.
DimBinding other_dims(const ir::Graph& graph, const DimBinding& tuned_for);

// Cuts the graph: every node that is not a view is in exactly one region. An anchor (convolution, matrix product,
// normalisation, ...) gets the element-wise chain that follows it as epilogue, and element-wise neighbours are joined
// into one region, as long as `accepts` says that some kernel supports the region; a region is shrunk from its end
// until one does.
using Accepts = std::function<bool(const Region&)>;
std::vector<Region> cut_regions(const ir::Graph& graph, const Accepts& accepts);

// The regions in a valid execution order. REQUIRES: no cycle among them.
std::vector<Region> in_order(const ir::Graph& graph, std::vector<Region> regions);

}  // namespace peri::lower
