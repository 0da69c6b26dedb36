// Checks of regions and kernels.
#include "exec/region/checked_region.hpp"

#include <algorithm>

#include "kernels/outside/outside.hpp"

namespace peri::exec {

Status check_region(const ir::Graph& g) {
  const auto computes = [](const ir::Node* n) { return !ops::states_sizes(*n); };
  const auto anchor = std::find_if(g.nodes.begin(), g.nodes.end(), computes);
  if (anchor == g.nodes.end() || !(*anchor)->in(0))
    return invalid("a region without a node that computes from an input");
  for (auto v = g.outputs.begin(); v != g.outputs.end(); ++v)
    if (!(*v)->producer || !computes((*v)->producer) || std::find(g.outputs.begin(), v, *v) != v)
      return invalid("result '%s' of a region is not computed by it, or stands twice", (*v)->name.c_str());
  return Ok{};
}

Result<const kernels::Kernel*> kernel_of(const RegionPayload& payload, std::string_view executor) {
  const kernels::Kernel* kernel = kernels::find(payload.kernel);
  const char* const name = payload.kernel.c_str();
  if ((!kernel || kernel->executor != executor) && kernels::outside::is_choice(payload.config))
    return refused("kernel '%s' is from outside, and its manifest was not given", name)
        .advise(
            "give the one that the engine was built with: --kernel FILE, the variable PERI_KERNELS, or "
            "peri_kernel_add() in a program");
  if (!kernel || kernel->executor != executor)
    return refused("kernel '%s' is not in this binary", name).advise("build the engine again with this version");
  const std::string manifest = kernels::outside::path_of(*kernel);
  if (kernel->version != payload.version && !manifest.empty())
    return refused("kernel '%s' has version %d in its manifest", name, kernel->version)
        .in_file(manifest)
        .expecting(std::to_string(payload.version))
        .advise("give the manifest that the engine was built with by --kernel FILE, or build the engine again");
  if (kernel->version != payload.version)
    return refused("kernel '%s' has version %d here", name, kernel->version)
        .expecting(std::to_string(payload.version))
        .advise("build the engine again with this version");
  PERI_TRY(kernels::outside::check_choice(*kernel, payload.config));
  return kernel;
}

Status check_kernel(const plan::Variant& variant, std::string_view executor) {
  PERI_ASSIGN(const RegionPayload payload, read_payload_head(variant.payload));
  PERI_TRY(kernel_of(payload, executor));
  return Ok{};
}

Status check_sharing(const kernels::Instance& instance, const kernels::Kernel& kernel, const plan::Step& step) {
  for (size_t j = 0; j < step.shares.size(); ++j)
    if (step.shares[j] >= 0 && !instance.may_take(j, static_cast<size_t>(step.shares[j])))
      return invalid("result %zu takes the memory of argument %d, which kernel '%s' does not allow at this size", j,
                     step.shares[j], std::string(kernel.name).c_str())
          .advise("build the engine again with this version");
  return Ok{};
}

}  // namespace peri::exec
