// A GPU kernel for tests: the sum of two tensors, with a configurable number of blocks, with or without a fault.
#pragma once

#include <string>

#include "kernels/cuda/code/launch.hpp"

namespace peri::tune::planted {

constexpr int kWrongBlocks = 4;

inline Result<std::vector<kernels::Offer>> offer_sum(const kernels::Problem& p, const device::Target&) {
  const ir::Graph& g = *p.graph;
  if (g.nodes.size() != 1 || g.nodes[0]->op != "add" || g.inputs.size() != 2 || g.inputs[0] == g.inputs[1])
    return refused("not one sum");
  for (const ir::Value* v : g.inputs)
    if (v->type.dtype != DType::kF32 || !(v->type == g.outputs[0]->type)) return refused("not of equal types");
  kernels::Offer o;
  o.inputs.resize(2);
  o.outputs.resize(1);
  return std::vector<kernels::Offer>{o};
}

// y = x + w with the configured number of blocks, else kBlocks; kMore elements are written beyond the end, or, if it is
// negative, one of x is changed at the end; with kWrongBlocks the last is omitted. Its entry is "peri_planted_N" for
// kBlocks.
template <int kMore, int kBlocks = 2>
const kernels::Kernel& sum_kernel();

template <int kMore, int kBlocks>
Result<std::unique_ptr<kernels::Instance>> make_sum(const kernels::Problem& p, std::string_view config,
                                                    const kernels::InstantiateContext&) {
  PERI_ASSIGN(const int64_t set, kernels::setting(sum_kernel<kMore, kBlocks>(), config, "blocks"));
  int64_t n = 1;
  for (const int64_t d : kernels::dims_of(*p.graph->outputs[0])) n *= d;
  kernels::cuda::KernelLaunch l;
  l.entry = "peri_planted_" + std::to_string(kBlocks);
  l.text = "extern \"C\" __global__ void " + l.entry +
           "(const float* x, const float* w, float* y, long long n, long long more) {\n"
           "  const long long step = (long long)gridDim.x * 256;\n"
           "  for (long long i = (long long)blockIdx.x * 256 + threadIdx.x; i < n + (more > 0 ? more : 0); i += step)\n"
           "    y[i] = i < n ? x[i] + w[i] : 1.0f;\n"
           "  if (more < 0 && blockIdx.x == 0 && threadIdx.x == 255) ((float*)x)[1] = 7;\n}\n";
  l.blocks = set > 0 ? set : kBlocks;
  using From = kernels::cuda::LaunchArgument::From;
  l.arguments = {{From::kInput, 0}, {From::kInput, 1}, {From::kOutput, 0}};
  l.sizes = {n - (set == kWrongBlocks), kMore};
  return kernels::cuda::LaunchInstance::make({l});
}

template <int kMore, int kBlocks>
const kernels::Kernel& sum_kernel() {
  static const std::string name = "planted_sum_" + std::to_string(kMore) + "_" + std::to_string(kBlocks);
  static const kernels::Kernel k{.name = name,
                                 .version = 1,
                                 .provider = "planted",
                                 .executor = "cuda",
                                 .takes = "sums",
                                 .offer = offer_sum,
                                 .instantiate = make_sum<kMore, kBlocks>,
                                 .tunables = {{"blocks", "of the grid", {1, kWrongBlocks, 8}}}};
  return k;
}

}  // namespace peri::tune::planted
