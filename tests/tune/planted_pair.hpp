// GPU kernels for tests: a product of two matrices, and two consecutive products as one launch, with a configurable
// number of blocks, which the fake driver's clock counts.
#pragma once

#include <string>

#include "kernels/cuda/code/launch.hpp"

namespace peri::tune::planted {

// Products of f32 matrices that are not weights: x w, or x w v with `kNodes` of 2.
template <int kNodes>
Result<std::vector<kernels::Offer>> offer_products(const kernels::Problem& p, const device::Target&) {
  const ir::Graph& g = *p.graph;
  if (g.nodes.size() != kNodes || g.inputs.size() != kNodes + 1 || g.outputs.size() != 1)
    return refused("another region");
  for (const ir::Node* n : g.nodes)
    if (n->op != "matmul") return refused("no product");
  if (kNodes == 2 && g.nodes[1]->inputs[0] != g.nodes[0]->out()) return refused("not one behind the other");
  kernels::Offer o;
  o.inputs.resize(kNodes + 1);
  o.outputs.resize(1);
  return std::vector<kernels::Offer>{o};
}

// Square matrices: row r of the result by thread r of the first block.
template <int kNodes, int kBlocks>
Result<std::unique_ptr<kernels::Instance>> make_products(const kernels::Problem& p, std::string_view,
                                                         const kernels::InstantiateContext&) {
  kernels::cuda::KernelLaunch l;
  l.entry = "peri_products_" + std::to_string(kNodes);
  const std::string sum = kNodes == 1 ? "x[r * n + k] * w[k * n + c]" : "at * v[k * n + c]";
  const std::string inner =
      kNodes == 1 ? ""
                  : "      float at = 0;\n      for (long long i = 0; i < n; ++i) at += x[r * n + i] * w[i * n + k];\n";
  l.text = "extern \"C\" __global__ void " + l.entry + "(const float* x, const float* w, " +
           (kNodes == 1 ? "" : "const float* v, ") +
           "float* y, long long n) {\n  const long long r = threadIdx.x;\n  if (blockIdx.x > 0 || r >= n) return;\n"
           "  for (long long c = 0; c < n; ++c) {\n    float all = 0;\n    for (long long k = 0; k < n; ++k) {\n" +
           inner + "      all += " + sum + ";\n    }\n    y[r * n + c] = all;\n  }\n}\n";
  l.blocks = kBlocks;
  using From = kernels::cuda::LaunchArgument::From;
  for (size_t k = 0; k <= kNodes; ++k) l.arguments.push_back({From::kInput, k});
  l.arguments.push_back({From::kOutput, 0});
  l.sizes = {kernels::dims_of(*p.graph->outputs[0])[0]};
  return kernels::cuda::LaunchInstance::make({l});
}

template <int kNodes, int kBlocks>
kernels::Kernel products_kernel(std::string_view name) {
  return {.name = name,
          .version = 1,
          .provider = "planted",
          .executor = "cuda",
          .takes = "products",
          .offer = offer_products<kNodes>,
          .instantiate = make_products<kNodes, kBlocks>};
}

}  // namespace peri::tune::planted
