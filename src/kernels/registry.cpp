// Look-up of kernels.
#include "kernels/entry.hpp"

namespace peri::kernels {

namespace {
std::vector<const Kernel*>& added() {
  static std::vector<const Kernel*> list;
  return list;
}
}  // namespace

std::vector<const Kernel*> kernels() {
  std::vector<const Kernel*> out;
  for (const Entry* e : entries()) out.push_back(&e->kernel);
  out.insert(out.end(), added().begin(), added().end());
  return out;
}

const Kernel* find(std::string_view name) {
  for (const Entry* e : entries())
    if (e->kernel.name == name) return &e->kernel;
  for (const Kernel* k : added())
    if (k->name == name) return k;
  return nullptr;
}

AddedKernel::AddedKernel(const Kernel& kernel) : kernel_(&kernel) { added().push_back(kernel_); }
AddedKernel::~AddedKernel() { std::erase(added(), kernel_); }
}  // namespace peri::kernels
