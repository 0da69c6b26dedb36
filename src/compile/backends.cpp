// The list of backends.
#include "compile/backends.hpp"

#include <algorithm>

#include "backends/cpu/backend.hpp"
#include "backends/cuda/backend.hpp"
#include "backends/null/backend.hpp"
#include "device/open.hpp"
#include "kernels/outside/outside.hpp"

namespace peri::compile {

Result<const lower::Backend*> backend_named(std::string_view name) {
  const lower::Backend* const all[] = {&backends::cpu::backend(), &backends::cuda::backend()};
  std::string names;
  for (const lower::Backend* b : all) {
    if (name == "auto" || name == b->name) return b;
    names += (names.empty() ? "" : ", ") + std::string(b->name);
  }
  if (name == backends::null::backend().name) return &backends::null::backend();  // for tests: not in the list
  return usage("there is no backend '%s'", std::string(name).c_str()).expecting("auto, " + names);
}

Result<const lower::Backend*> backend_for(std::string_view backend, std::string_view device) {
  if (device.empty()) return backend_named(backend);
  PERI_TRY(device::ordinal_of(device));
  const std::string kind(device::kind_of(device));
  const auto of_device = backend_named(kind);
  if (kind == "auto" || !of_device.ok())
    return usage("there is no device '%s'", std::string(device).c_str())
        .expecting("cpu, cuda, or cuda:NUMBER")
        .advise("leave --device out to run on the CPU");
  PERI_ASSIGN(const lower::Backend* const out, backend == "auto" ? of_device : backend_named(backend));
  if (kind == (out->placement.device.empty() ? out->name : out->placement.device)) return out;
  return usage("backend '%s' does not build for device '%s'", std::string(out->name).c_str(),
               std::string(device).c_str())
      .expecting(std::string(out->placement.device.empty() ? out->name : out->placement.device))
      .advise(kind == out->name ? "leave --device out" : "give --backend " + kind);
}

std::string_view backend_of_kind(bool gpu) { return (gpu ? backends::cuda::backend() : backends::cpu::backend()).name; }

Error not_here(Error why, const lower::Backend& backend, std::string_view device) {
  why.message = "--backend " + std::string(backend.name) + ": " + why.message;
  if (!why.remedy.empty()) why.remedy += ", or ";
  why.remedy += device.empty() ? "build for the CPU with --backend cpu" : "leave --device out to build for the CPU";
  return why;
}

std::vector<std::string> notes_of(const lower::Backend& backend, bool measured) {
  const std::string name(backend.name);
  std::vector<std::string> out;
  if (!measured)
    out.push_back("backend '" + name + "': each choice is its kernel's first offer; none was timed or tried alone");
  for (const kernels::Kernel* k : kernels::kernels())
    if (k->provider == kernels::outside::kProvider &&
        std::count(backend.executors.begin(), backend.executors.end(), k->executor) == 0)
      out.push_back("kernel '" + std::string(k->name) + "' was not tried: it is for backend '" +
                    std::string(k->executor) + "', and this build is for '" + name + "'");
  return out;
}

}  // namespace peri::compile
