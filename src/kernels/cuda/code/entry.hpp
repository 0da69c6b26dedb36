// What every kernel file here ends with: a plan of launches becomes an entry of the list.
#pragma once

#include "kernels/cuda/code/launch.hpp"

namespace peri::kernels::cuda {

// Result<std::vector<KernelLaunch>> kPlan(const Problem&), which refuses what it does not take: one offer that holds at
// every size.
template <auto kPlan>
Result<std::vector<Offer>> offer_of(const Problem& problem, const Target& target) {
  PERI_TRY(check_gpu(target));
  PERI_TRY(kPlan(problem));
  return plain_offer(problem);
}
template <auto kPlan>
Result<std::unique_ptr<Instance>> instance_of(const Problem& problem, std::string_view, const InstantiateContext&) {
  PERI_ASSIGN(auto launches, kPlan(problem));
  return LaunchInstance::make(std::move(launches));
}

// An own kernel of the executor "cuda".
inline Entry entry_of(std::string_view name, std::string_view takes, decltype(Kernel::offer) offer,
                      decltype(Kernel::instantiate) instantiate) {
  return {{.name = name,
           .version = 1,
           .provider = "peri",
           .executor = "cuda",
           .takes = takes,
           .offer = offer,
           .instantiate = instantiate}};
}
template <auto kPlan>
Entry entry_of(std::string_view name, std::string_view takes) {
  return entry_of(name, takes, offer_of<kPlan>, instance_of<kPlan>);
}

}  // namespace peri::kernels::cuda
