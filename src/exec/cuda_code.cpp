// Launches are planned without weights, since no text contains them: see PackedWeight.
#include "exec/cuda_code.hpp"

#include <algorithm>

#include "base/fault.hpp"
#include "device/cuda/code_shelf.hpp"
#include "kernels/outside/outside.hpp"

namespace peri::exec {

device::cuda::Source source_of(const kernels::Kernel& kernel, const kernels::cuda::KernelLaunch& launch,
                               std::string chip) {
  device::cuda::Source out{std::string(kernel.name), launch.text, std::move(chip)};
  out.lean = kernel.provider != kernels::outside::kProvider;
  return out;
}

double code_seconds() {
  const auto shelf = device::cuda::CodeShelf::of_process();
  return shelf.ok() ? (*shelf)->waited_seconds() : 0;
}

std::vector<device::cuda::Source> sources_of(const kernels::Kernel& kernel, const kernels::Problem& problem,
                                             const kernels::Offer& offer, const device::Target& target) {
  std::vector<device::cuda::Source> out;
  if (kernel.executor != "cuda") return out;
  const auto chip =
      std::find_if(target.isas.begin(), target.isas.end(), [](const std::string& i) { return i.starts_with("sm_"); });
  if (chip == target.isas.end()) return out;
  ir::Graph region = problem.graph->clone();
  for (size_t k = 0; k < std::min(region.inputs.size(), offer.inputs.size()); ++k)
    region.inputs[k]->type.layout = offer.inputs[k];
  for (size_t k = 0; k < std::min(region.outputs.size(), offer.outputs.size()); ++k)
    region.outputs[k]->type.layout = offer.outputs[k];
  const std::vector<Tensor> none(region.inputs.size());
  kernels::Packed packed;
  const auto made = contained(
      [&] { return kernel.instantiate({&region, problem.constant}, offer.config, {none, &packed, &target, nullptr}); });
  if (!made.ok()) return out;
  if (const auto* plan = dynamic_cast<const kernels::cuda::LaunchInstance*>(made->get()))
    for (const kernels::cuda::KernelLaunch& l : plan->launches())
      if (l.form == kernels::cuda::KernelLaunch::Form::kSource) out.push_back(source_of(kernel, l, *chip));
  return out;
}

void foresee_code(const kernels::Kernel& kernel, const kernels::Problem& problem, const kernels::Offer& offer,
                  const device::Target& target, bool urgent) {
  if (kernel.executor != "cuda") return;
  const auto shelf = device::cuda::CodeShelf::of_process();
  if (!shelf.ok()) return;
  for (device::cuda::Source& source : sources_of(kernel, problem, offer, target))
    (*shelf)->foresee(std::move(source), urgent);
}

}  // namespace peri::exec
