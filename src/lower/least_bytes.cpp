// Counts each block of memory once, whatever views of it are read.
#include "lower/least_bytes.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace peri::lower {
namespace {
using Blocks = std::set<const ir::Value*>;

// The value whose memory it lies in.
const ir::Value* block_of(const ir::Value* v) {
  while (v->producer && is_view(*v->producer)) v = v->producer->in(0);
  return v;
}

double bytes_of(const ir::Value* v, const DimBinding& sizes) {
  if (is_weight(v) || !v->type.shape) return 0;
  const auto dims = eval(*v->type.shape, sizes);
  if (!dims.ok()) return 0;
  double bytes = dtype_bits(v->type.dtype) / 8.0;
  for (const int64_t d : *dims) bytes *= static_cast<double>(d);
  return bytes;
}

// Of the values, but for the blocks in `beside`.
double bytes_of(const std::vector<ir::Value*>& values, const Blocks& beside, const DimBinding& sizes) {
  Blocks blocks;
  double bytes = 0;
  for (const ir::Value* v : values)
    if (const ir::Value* block = block_of(v); !beside.contains(block) && blocks.insert(block).second)
      bytes += bytes_of(block, sizes);
  return bytes;
}
}  // namespace

double least_bytes(const ir::Graph& graph, const Parts& parts, const DimBinding& sizes) {
  std::vector<ir::Value*> all = graph.inputs;
  all.insert(all.end(), graph.outputs.begin(), graph.outputs.end());
  const double ports = bytes_of(all, {}, sizes);
  Blocks beside;
  for (const ir::Value* v : all) beside.insert(block_of(v));
  std::vector<double> least(static_cast<size_t>(parts.atoms), HUGE_VAL);
  for (const Part& part : parts.list) {
    const double bytes =
        std::max(bytes_of(part.region.inputs, beside, sizes), bytes_of(part.region.outputs, beside, sizes));
    for (const int atom : part.atoms) {
      double& of_atom = least[static_cast<size_t>(atom)];
      of_atom = std::min(of_atom, bytes);
    }
  }
  double most = 0;
  for (const double bytes : least)
    if (std::isfinite(bytes)) most = std::max(most, bytes);
  return ports + most;
}

}  // namespace peri::lower
