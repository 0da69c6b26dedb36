// Look-up of kernels, and configuration texts.
#include <charconv>

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

Result<int64_t> config_int(std::string_view config, std::string_view key, int64_t low, int64_t high, int64_t fallback) {
  size_t at = 0;
  while (at < config.size()) {
    size_t end = config.find(' ', at);
    if (end == std::string_view::npos) end = config.size();
    const std::string_view item = config.substr(at, end - at);
    at = end + 1;
    const size_t eq = item.find('=');
    if (eq == std::string_view::npos || item.substr(0, eq) != key) continue;
    int64_t v = 0;
    const std::string_view digits = item.substr(eq + 1);
    auto [stop, code] = std::from_chars(digits.data(), digits.data() + digits.size(), v);
    if (code != std::errc() || stop != digits.data() + digits.size() || v < low || v > high)
      return invalid("bad configuration")
          .at_node(std::string(key))
          .expecting(format("a number in [%lld, %lld]", static_cast<long long>(low), static_cast<long long>(high)))
          .but_found(std::string(digits));
    return v;
  }
  return fallback;
}

std::vector<int64_t> dims_of(const ir::Value& v) {
  std::vector<int64_t> out;
  for (const Dim& d : *v.type.shape) out.push_back(d.value());
  return out;
}

}  // namespace peri::kernels
