// Launches are planned without weights, which no text holds: see PackedWeight.
#include "exec/cuda_code.hpp"

#include <algorithm>

#include "base/fault.hpp"
#include "device/cuda/code_shelf.hpp"

namespace peri::exec {

device::cuda::Source source_of(const kernels::Kernel& kernel, const kernels::cuda::KernelLaunch& launch,
                               std::string chip) {
  return {std::string(kernel.name), launch.text, std::move(chip)};
}

double code_seconds() {
  const auto shelf = device::cuda::CodeShelf::of_process();
  return shelf.ok() ? (*shelf)->waited_seconds() : 0;
}

void foresee_code(const kernels::Kernel& kernel, const kernels::Problem& problem, const kernels::Offer& offer,
                  const device::Target& target, bool urgent) {
  if (kernel.executor != "cuda") return;
  const auto chip =
      std::find_if(target.isas.begin(), target.isas.end(), [](const std::string& i) { return i.starts_with("sm_"); });
  if (chip == target.isas.end()) return;
  const auto shelf = device::cuda::CodeShelf::of_process();
  if (!shelf.ok()) return;
  ir::Graph region = problem.graph->clone();
  for (size_t k = 0; k < std::min(region.inputs.size(), offer.inputs.size()); ++k)
    region.inputs[k]->type.layout = offer.inputs[k];
  for (size_t k = 0; k < std::min(region.outputs.size(), offer.outputs.size()); ++k)
    region.outputs[k]->type.layout = offer.outputs[k];
  const std::vector<Tensor> none(region.inputs.size());
  kernels::Packed packed;
  const auto made = contained(
      [&] { return kernel.instantiate({&region, problem.constant}, offer.config, {none, &packed, &target, nullptr}); });
  if (!made.ok()) return;
  if (const auto* plan = dynamic_cast<const kernels::cuda::LaunchInstance*>(made->get()))
    for (const kernels::cuda::KernelLaunch& l : plan->launches())
      (*shelf)->foresee(source_of(kernel, l, *chip), urgent);
}

}  // namespace peri::exec
