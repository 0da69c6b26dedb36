// Settings in configuration texts.
#include <algorithm>

#include "kernels/entry.hpp"

namespace peri::kernels {

namespace {
const Tunable* find_tunable(const Kernel& kernel, std::string_view name) {
  const auto it =
      std::find_if(kernel.tunables.begin(), kernel.tunables.end(), [&](const Tunable& t) { return t.name == name; });
  return it == kernel.tunables.end() ? nullptr : &*it;
}

// The words of a configuration, "a=1 b=2".
std::vector<std::string_view> words(std::string_view config) {
  std::vector<std::string_view> out;
  while (!config.empty()) {
    const size_t end = std::min(config.find(' '), config.size());
    if (end > 0) out.push_back(config.substr(0, end));
    config.remove_prefix(std::min(end + 1, config.size()));
  }
  return out;
}
}  // namespace

std::string derived_config(const Kernel& kernel, std::string_view config) {
  std::string out;
  for (const std::string_view word : words(config))
    if (!find_tunable(kernel, word.substr(0, word.find('=')))) out += (out.empty() ? "" : " ") + std::string(word);
  return out;
}

std::vector<std::string> settings_of(const Kernel& kernel, std::string_view config, size_t most) {
  std::vector<std::string> out;
  size_t longest = 0;
  for (const Tunable& t : kernel.tunables) longest = std::max(longest, t.values.size());
  for (size_t k = 0; k < longest; ++k)
    for (const Tunable& t : kernel.tunables) {
      const Result<int64_t> set = setting(kernel, config, t.name);
      if (k >= t.values.size() || out.size() >= most || !set.ok() || *set != 0) continue;
      out.push_back(std::string(config) + (config.empty() ? "" : " ") + std::string(t.name) + "=" +
                    std::to_string(t.values[k]));
    }
  return out;
}

Result<int64_t> setting(const Kernel& kernel, std::string_view config, std::string_view name) {
  const Tunable* t = find_tunable(kernel, name);
  if (!t) return invalid("no tunable of the kernel").at_node(std::string(name));
  PERI_ASSIGN(const int64_t value, config_int(config, name, 1, INT64_MAX, 0));
  if (value != 0 && std::find(t->values.begin(), t->values.end(), value) == t->values.end())
    return invalid("bad configuration").at_node(std::string(name)).but_found(std::to_string(value));
  return value;
}

}  // namespace peri::kernels
