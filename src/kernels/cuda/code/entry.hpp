// The common end of every kernel file here: a plan of launches becomes an entry of the registry.
#pragma once

#include <type_traits>

#include "kernels/cuda/code/launch.hpp"

namespace peri::kernels::cuda {

// Launches with the errors that they may detect in the data (LaunchArgument::From::kFault), and bytes of workspace.
struct Planned {
  std::vector<KernelLaunch> launches = {};
  std::vector<Error> faults = {};
  size_t workspace = 0;
};
inline Result<std::unique_ptr<Instance>> instance_from(std::vector<KernelLaunch> launches) {
  return LaunchInstance::make(std::move(launches));
}
inline Result<std::unique_ptr<Instance>> instance_from(Planned planned) {
  return LaunchInstance::make(std::move(planned.launches), planned.workspace, std::move(planned.faults));
}

// kPlan(const Problem&), or kPlan(const Problem&, const GpuLimits&) where the chip decides about the text, returns
// either of them and refuses other problems: one offer that is valid at every size.
template <auto kPlan>
auto planned_for(const Problem& problem, const Target& target) {
  if constexpr (std::is_invocable_v<decltype(kPlan), const Problem&, const GpuLimits&>)
    return kPlan(problem, limits_of(target));
  else
    return kPlan(problem);
}
template <auto kPlan>
Result<std::vector<Offer>> offer_of(const Problem& problem, const Target& target) {
  PERI_TRY(check_gpu(target));
  PERI_TRY(planned_for<kPlan>(problem, target));
  return plain_offer(problem);
}
template <auto kPlan>
Result<std::unique_ptr<Instance>> instance_of(const Problem& problem, std::string_view,
                                              const InstantiateContext& context) {
  PERI_ASSIGN(auto planned, planned_for<kPlan>(problem, *context.target));
  return instance_from(std::move(planned));
}

// An own kernel for the executor "cuda".
template <auto kOffer, auto kInstantiate>
Entry entry_of(std::string_view name, std::string_view takes) {
  return {{.name = name,
           .version = 1,
           .provider = "peri",
           .executor = "cuda",
           .takes = takes,
           .offer = kOffer,
           .instantiate = kInstantiate,
           .needs = needs_from<kInstantiate>}};
}
template <auto kPlan>
Entry entry_of(std::string_view name, std::string_view takes) {
  return entry_of<offer_of<kPlan>, instance_of<kPlan>>(name, takes);
}

}  // namespace peri::kernels::cuda
