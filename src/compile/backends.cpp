// The list.
#include "compile/backends.hpp"

#include "backends/cpu/backend.hpp"
#include "backends/cuda/backend.hpp"
#include "backends/null/backend.hpp"

namespace peri::compile {

Result<const lower::Backend*> backend_named(std::string_view name) {
  const lower::Backend* const all[] = {&backends::cpu::backend(), &backends::cuda::backend()};
  std::string names;
  for (const lower::Backend* b : all) {
    if (name == "auto" || name == b->name) return b;
    names += (names.empty() ? "" : ", ") + std::string(b->name);
  }
  if (name == backends::null::backend().name) return &backends::null::backend();  // for tests: not in the list
  return refused("no backend '%s' in this build", std::string(name).c_str()).expecting(names);
}

Error not_here(Error why, const lower::Backend& backend) {
  why.message = "--backend " + std::string(backend.name) + ": " + why.message;
  if (!why.remedy.empty()) why.remedy += ", or ";
  why.remedy += "build for the CPU with --backend cpu";
  return why;
}

}  // namespace peri::compile
